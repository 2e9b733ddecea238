package model

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// apiVersion is the one version of the API whose requests are understood here.
const apiVersion = "2023-06-01"

// betas are the beta features that Claude Code 2.1.329 asks for with an API
// key; none of them lets the vendor act for the model. Others are left out of
// what is sent on.
var betas = []string{
	"claude-code-20250219",
	"interleaved-thinking-2025-05-14",
	"context-management-2025-06-27",
	"per-turn-control-2026-07-01",
	"mid-conversation-tool-changes-2026-07-01",
	"thinking-token-count-2026-05-13",
	"advanced-tool-use-2025-11-20",
	"effort-2025-11-24",
	"thinking-display-updates-2026-08-18",
}

// sentOn are the brain's headers that the upstream sees; all others end here,
// first of all every form of authentication.
var sentOn = []string{"User-Agent", "X-App"}

// sentBack are the upstream's headers that the brain sees.
var sentBack = []string{
	"Content-Type", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id", "Cache-Control",
}

// rateLimitPrefix begins the upstream's headers about its limits, which brains show.
const rateLimitPrefix = "Anthropic-Ratelimit-"

// presented reports whether the brain showed the session's token, as a key or as a bearer.
func presented(h http.Header, token nacre.Secret) bool {
	values := h.Values("X-Api-Key")
	for _, v := range h.Values("Authorization") {
		if len(v) > 7 && strings.EqualFold(v[:7], "bearer ") {
			values = append(values, v[7:])
		}
	}
	ok := 0
	for _, v := range values {
		ok |= subtle.ConstantTimeCompare([]byte(v), []byte(token.Reveal()))
	}
	return ok == 1
}

// upstreamHeader builds what is sent on from nothing, and counts the betas left out.
func upstreamHeader(in http.Header, key nacre.Secret) (out http.Header, dropped int) {
	out = http.Header{}
	for _, name := range sentOn {
		if v := in.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "nacre")
	}
	var wanted []string
	for _, line := range in.Values("Anthropic-Beta") {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.TrimSpace(name); {
			case slices.Contains(betas, name):
				wanted = append(wanted, name)
			case name != "":
				dropped++
			}
		}
	}
	if len(wanted) > 0 {
		out.Set("Anthropic-Beta", strings.Join(wanted, ","))
	}
	out.Set("Anthropic-Version", apiVersion)
	out.Set("Content-Type", "application/json")
	out.Set("Accept-Encoding", "identity") // the answer is read as it passes
	if !key.Empty() {
		out.Set("X-Api-Key", key.Reveal())
	}
	return out, dropped
}

func downstreamHeader(out, in http.Header) {
	for name, values := range in {
		if slices.Contains(sentBack, name) || strings.HasPrefix(name, rateLimitPrefix) {
			out[name] = values
		}
	}
}

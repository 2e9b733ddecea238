package model

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// sentOn are the brain's headers of which every upstream sees what they begin with. All others end
// here, first of all every form of authentication, organisation and project.
var sentOn = []string{"User-Agent", "X-App"}

// sentBack are the upstream's headers that the brain sees.
var sentBack = []string{
	"Content-Type", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id", "X-Request-Id", "Openai-Processing-Ms", "Cache-Control",
}

// limitPrefixes begin the upstream's headers about its limits, which brains show.
var limitPrefixes = []string{"Anthropic-Ratelimit-", "X-Ratelimit-"}

// presented reports whether the brain showed the session's token, as a key or as a bearer.
func presented(h http.Header, token nacre.Secret) bool {
	values := slices.Clone(h.Values("X-Api-Key"))
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

// dropped are the vendor's switches that were left out of what is sent on.
type dropped struct {
	count int
	// names are at most maxNamed of them, as far as they are names: what a brain
	// writes there is no way into the records.
	names []string
}

const (
	maxNamed = 16
	// maxBetaName is the longest name of a feature in bytes.
	maxBetaName = 64
)

func (d *dropped) add(name string) {
	d.count++
	plain := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if plain && len(name) <= maxBetaName && len(d.names) < maxNamed && !slices.Contains(d.names, name) {
		d.names = append(d.names, name)
	}
}

const (
	// maxProduct and maxVersion are the longest parts of a client's name, in bytes.
	maxProduct, maxVersion = 32, 24
)

var (
	// unfinished are what versions that are not released are called.
	unfinished = []string{"alpha", "beta", "rc", "dev", "preview", "pre", "post", "next", "canary", "nightly", "a", "b"}
	// languages are those of which vendors' libraries name theirs: OpenAI/Python 1.2.
	languages = []string{"Python", "JS", "Go", "Java", "Kotlin", "Ruby", "PHP"}
)

// product is the name and version that a client's account of itself begins with,
// or "". What else stands there is no way to the vendor: nobody looks at it.
func product(v string) string {
	v, more, _ := strings.Cut(v, " ")
	name, version, _ := strings.Cut(v, "/")
	if slices.Contains(languages, version) {
		version, _, _ = strings.Cut(more, " ")
		v += " " + version
	}
	plain := strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") == ""
	if !plain || len(name) > maxProduct || !isVersion(version) {
		return ""
	}
	return v
}

// isVersion accepts digits and dots, and one of those words between them.
func isVersion(v string) bool {
	if len(v) > maxVersion {
		return false
	}
	v = strings.TrimLeft(v, "0123456789.")
	if v == "" {
		return true
	}
	v = strings.TrimPrefix(v, "-")
	return slices.ContainsFunc(unfinished, func(word string) bool {
		number, ok := strings.CutPrefix(v, word)
		return ok && strings.Trim(number, "0123456789.") == ""
	})
}

// upstreamHeader builds what is sent on from nothing, and says what was left out.
func upstreamHeader(in http.Header, s speaker, shown Credential, may allowed) (out http.Header, left dropped) {
	out = http.Header{}
	for _, name := range sentOn {
		if v := product(in.Get(name)); v != "" {
			out.Set(name, v)
		}
	}
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "nacre")
	}
	out.Set("Content-Type", "application/json")
	out.Set("Accept-Encoding", "identity") // the answer is read as it passes
	if !shown.login {
		return out, s.header(out, in, shown.Key, may)
	}
	left = s.header(out, in, nacre.Secret{}, may)
	shown.sign(out)
	return out, left
}

// downstreamHeader passes on what is on the lists, and nothing that holds the key.
func downstreamHeader(out, in http.Header, key nacre.Secret) {
	for name, values := range in {
		limit := slices.ContainsFunc(limitPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if !limit && !slices.Contains(sentBack, name) {
			continue
		}
		if key.Empty() || !strings.Contains(strings.Join(values, "\n"), key.Reveal()) {
			out[name] = values
		}
	}
}

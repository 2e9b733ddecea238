package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// window is how old or how far ahead a signature's time may be.
const window = 5 * time.Minute

// The presets: how a sender signs.
const (
	presetGeneric = "generic" // X-Nacre-Signature: t=SECONDS,v1=HEX over "SECONDS.BODY"
	presetGitHub  = "github"  // X-Hub-Signature-256: sha256=HEX over BODY
	presetGitea   = "gitea"   // X-Gitea-Signature: HEX over BODY
	presetSlack   = "slack"   // X-Slack-Signature: v0=HEX over "v0:SECONDS:BODY", X-Slack-Request-Timestamp: SECONDS
)

const genericHeader = "X-Nacre-Signature"

func isPreset(s string) bool {
	return s == presetGeneric || s == presetGitHub || s == presetGitea || s == presetSlack
}

// signature is what a request shows.
type signature struct {
	mac   []byte
	text  string // what stands before the body in what is signed
	timed bool
	at    time.Time
}

// parseSignature reads the preset's headers. Each stands there exactly once, in
// one spelling: what could be read in two ways is no signature.
func parseSignature(preset string, h http.Header) (s signature, ok bool) {
	switch preset {
	case presetGeneric:
		seconds, mac, found := strings.Cut(one(h, genericHeader), ",v1=")
		seconds, prefixed := strings.CutPrefix(seconds, "t=")
		return timed(seconds, mac, seconds+".", found && prefixed)
	case presetGitHub:
		mac, prefixed := strings.CutPrefix(one(h, "X-Hub-Signature-256"), "sha256=")
		return untimed(mac, prefixed)
	case presetGitea:
		return untimed(one(h, "X-Gitea-Signature"), true)
	case presetSlack:
		seconds := one(h, "X-Slack-Request-Timestamp")
		mac, prefixed := strings.CutPrefix(one(h, "X-Slack-Signature"), "v0=")
		return timed(seconds, mac, "v0:"+seconds+":", prefixed)
	}
	return signature{}, false
}

func one(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

func untimed(mac string, ok bool) (signature, bool) {
	raw, valid := parseMAC(mac)
	return signature{mac: raw}, ok && valid
}

func timed(seconds, mac, text string, ok bool) (signature, bool) {
	raw, valid := parseMAC(mac)
	n, err := strconv.ParseUint(seconds, 10, 40)
	if !ok || !valid || err != nil || strconv.FormatUint(n, 10) != seconds {
		return signature{}, false
	}
	return signature{mac: raw, text: text, timed: true, at: time.Unix(int64(n), 0)}, true
}

// parseMAC reads 64 digits of lower-case hex.
func parseMAC(s string) ([]byte, bool) {
	raw, err := hex.DecodeString(s)
	return raw, err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}

// matches compares in a time that does not depend on the MAC.
func (s signature) matches(secret, body []byte) bool {
	return hmac.Equal(s.mac, sign(secret, s.text, body))
}

// fresh reports whether it was made within the window, where it says when.
func (s signature) fresh(now time.Time) bool {
	age := now.Sub(s.at)
	return !s.timed || age <= window && age >= -window
}

func sign(secret []byte, text string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	mac.Write(body)
	return mac.Sum(nil)
}

// genericSignature is the header of what is sent.
func genericSignature(secret, body []byte, now time.Time) string {
	seconds := strconv.FormatInt(now.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(sign(secret, seconds+".", body))
}

package redact_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

// F-87, F-54: nacre's own ids are no secrets, under whatever name; what a site calls a session by is one.
func TestOwnIDsAreNoSecrets(t *testing.T) {
	engine := redact.New()
	for _, text := range []string{
		`session_id: import-l45eqfiy6jkn`, `{"provenance":{"session_id":"import-l45eqfiy6jkn","group":"main"}}`,
		`token: mem-XDEAAPFEBCOGPGT2LEKAEEZ55T`, `{"id":"mem-XDEAAPFEBCOGPGT2LEKAEEZ55T","secret":"mem-6URDZ2OGJ7AYT7M23DX32TTBN5"}`,
		`session_id=release-notes-2026-11-22`, `{"session_id":"fix-k3f9ab-of-ticket-4711"}`, `api_key: task-abcdefghij`, `token=task-k3f7abk3f2`,
	} {
		if have, found := engine.String(text); found {
			t.Errorf("%s: have %s", text, have)
		}
	}
	for _, text := range []string{
		`session_id: 0f8b2c9d4e7a61350f8b2c9d4e7a6135`, `{"session_id":"serve-k3f9abk3f9abk3f9ab"}`, `session_id=2f1d9a7c-31f4-4c0b-9a51-7d2be3f0c6a8`,
		`token: mem-XDEAAPFEBCOGPGT2LEKAEEZ551`, `token: mem-XDEAAPFEBCOGPGT2LEKAEEZ55TX`, `api_key: import-l45eqfiy6jkN`, `session_id=123456789012345678901234`,
	} {
		if have, found := engine.String(text); !found {
			t.Errorf("not hidden: %s", have)
		}
	}
}

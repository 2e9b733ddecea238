package mcptool_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/mcptool"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"getUser": "get_user", "get-user": "get_user", "get.user": "get_user", "getHTTP": "get_http", "a1B": "a1_b", "API": "api", "ünïcode": "ünïcode",
		"GET": "get", "a/b c": "a_b_c", "v2Api": "v2_api"} {
		if have := mcptool.Name(name); have != want {
			t.Errorf("%s: have %s, want %s", name, have, want)
		}
	}
}

// Tags, zero-width and bidirectional characters carry words that no reviewer sees.
func TestWhatNobodySeesIsGone(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\twords": "plain\n\twords", "a\u200bb": "ab", "a\u202eb": "ab", "a\U000e0041b": "ab", "a\x1b[31mb": "a[31mb", "a\ufe0fb": "ab", "é": "é",
	} {
		if have, clean := mcptool.Visible(text); have != want || clean != (have == text) {
			t.Errorf("%q: have %q, %v", text, have, clean)
		}
	}
}

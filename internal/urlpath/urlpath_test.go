package urlpath_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/urlpath"
)

func TestPathsThatTwoServersReadInTwoWaysAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/a/b", "/a%20b", "/@acme%2fdep", "/a/", "/%", "/%e4%bd%a0"} {
		if err := urlpath.Check(path); (err == nil) == (path == "/%") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/a/../b", "/a/./b", "//a", "/a//b", "/%2e%2e/a", "/%252e%252e/a", "/a;b", "/a\\b", "/a%5cb", "/a%00", "/%zz", "/\u2215", "/%ff", "/%25252525252e"} {
		if urlpath.Check(path) == nil {
			t.Errorf("%s is let through", path)
		}
	}
}

func TestAPrefixStandsForWholeSegments(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/pool": true, "/pool/a": true, "/pools": false, "/": false} {
		if urlpath.Below(path, "/pool") != want {
			t.Errorf("%s below /pool: want %v", path, want)
		}
	}
	if decoded, ok := urlpath.Unescape("/a%2Fb%zz%4"); decoded != "/a/b%zz%4" || ok {
		t.Errorf("have %q %v", decoded, ok)
	}
}

package audit_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/audit"
)

// A chain's name becomes a folder's: nothing leads out of the root.
func TestOnlyPlainNamesAreChains(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	for name, plain := range map[string]bool{
		"a": true, "9": true, "k3f9ab.1": true, "memory-0f": true, "a_b": true, strings.Repeat("a", 80): true,
		"": false, ".": false, "..": false, "../a": false, "a/b": false, ".a": false, "-a": false, "_a": false, "A": false, "a b": false, "a\n": false,
		"a\x00": false, "ä": false, strings.Repeat("a", 81): false,
	} {
		_, err := audit.ReadHead(root, name, testKeys(t).Public())
		if errors.Is(err, fs.ErrNotExist) != plain {
			t.Errorf("%q: have %v", name, err)
		}
	}
}

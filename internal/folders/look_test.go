package folders_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/folders"
)

// M-42: a look at a folder that has more in it than is looked at ends, and says so.
func TestALookAtAFolderEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range folders.MaxEntries + 1 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if holds, keys := folders.Glance(dir); !strings.HasPrefix(holds, "at least 10001 files, ") || keys != "" {
		t.Errorf("have %q, %q", holds, keys)
	}
}

// M-42: what looks like keys is named, those at the top before others; links are not followed.
func TestALookAtAFolderNamesKeys(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, ".env"), filepath.Join(dir, "deep", "er", "tls.pem"), filepath.Join(dir, "deep", "auth.json"), filepath.Join(dir, "a.txt"), filepath.Join(outside, "id_rsa")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	holds, keys := folders.Glance(dir)
	if holds != "a git repository, 4 files, 12 bytes" || keys != "it holds what looks like keys: .env, deep/auth.json, deep/er/tls.pem" {
		t.Errorf("have %q, %q", holds, keys)
	}
}

// M-42: a configuration of git with a password or a token in it is named, and no other one.
func TestALookAtAFolderNamesCredentialsOfGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".git/config":                   "[remote \"origin\"]\n\turl = https://ann:secret@p.example/p.git\n",
		".git/modules/sub/config":       "[http \"https://p.example/\"]\n\textraHeader = AUTHORIZATION: basic c2VjcmV0\n",
		"by-token/.git/config":          "[url \"https://token@p.example/\"]\n\tinsteadOf = p:\n",
		"plain/.git/config":             "[remote \"origin\"]\n\turl = https://p.example/@scope/p.git\n",
		"ssh/.git/config":               "[remote \"origin\"]\n\turl = git@p.example:p.git\n[user]\n\temail = ann@p.example\n",
		"by-token/config":               "https://token@p.example/ is no address of git's here\n",
		"plain/.git/refs/heads/config2": "https://token@p.example/\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const want = "it holds what looks like keys: .git/config, .git/modules/sub/config, by-token/.git/config"
	if _, keys := folders.Glance(dir); keys != want {
		t.Errorf("have %q", keys)
	}
}

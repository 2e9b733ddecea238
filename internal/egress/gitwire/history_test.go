package gitwire_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" // #nosec G505 -- git's object ids
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/egress/gitwire"
)

// repository is one of git's, in which commits are made.
type repository struct {
	t   testing.TB
	dir string
}

func (r repository) git(stdin string, args ...string) string {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	c.Stdin = strings.NewReader(stdin)
	out, err := c.Output()
	if err != nil {
		r.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// commit adds one, whose message is long enough that git packs the next one as a difference to it.
func (r repository) commit(name string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(strings.Repeat(name, 1000)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.git("", "add", "-A")
	r.git("", "commit", "-q", "-m", name+"\n\n"+longText())
	return r.git("", "rev-parse", "HEAD")
}

func longText() string {
	var s strings.Builder
	for i := range 200 {
		fmt.Fprintf(&s, "line %d of what was done\n", i*i)
	}
	return s.String()
}

// pack is what git sends for a push of a commit to a host that has another one.
func (r repository) pack(from, to string, more ...string) string {
	r.t.Helper()
	return r.git(to+"\n^"+from+"\n", append([]string{"pack-objects", "--revs", "--stdout", "--thin", "-q"}, more...)...) + "\n"
}

func newRepository(t testing.TB, format string) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("", "init", "-q", "-b", "main", "--object-format="+format)
	return r
}

// M-51: a ref follows what it was on where the commits of the push show that, in all forms that git
// packs them in. All else is forced, or cannot be told from it.
func TestAForcedPushIsTold(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		r := newRepository(t, format)
		base := r.commit("base")
		var last string
		for i := range 20 {
			last = r.commit(fmt.Sprint("more", i))
		}
		r.git("", "switch", "-q", "-c", "side", base)
		side := r.commit("side")
		r.git("", "merge", "-q", "-m", "joined", "main")
		merged := r.git("", "rev-parse", "HEAD")
		r.git("", "tag", "-a", "-m", "one", "v1", last)
		tag := r.git("", "rev-parse", "v1")
		whole := r.pack(base, last)
		for name, c := range map[string]struct {
			pack, from, to string
			follows        bool
		}{
			"what follows":                         {whole, base, last, true},
			"with differences by place":            {r.pack(base, last, "--delta-base-offset"), base, last, true},
			"joined with another branch":           {r.pack(last, merged), last, merged, true},
			"behind its other parent":              {r.pack(side, merged), side, merged, true},
			"a tag beside it":                      {r.pack(base, tag, "--include-tag"), base, last, true},
			"another branch":                       {r.pack(last, side), last, side, false},
			"back to where it was":                 {r.pack(last, base), last, base, false},
			"a commit that is not in the pack":     {r.pack(last, merged), base, last, false},
			"a tag that is moved":                  {r.pack(base, tag), base, tag, false},
			"another pack":                         {"PACK\x00\x00\x00\x09" + whole[8:], base, last, false},
			"none":                                 {"", base, last, false},
			"one that ends":                        {whole[:40], base, last, false},
			"one of which a byte is another one":   {whole[:60] + "\x00" + whole[61:], base, last, false},
			"one that says that it has no objects": {whole[:8] + "\x00\x00\x00\x00" + whole[12:], base, last, false},
			"a name in the other way of naming":    {whole, strings.Repeat("a", 104-len(base)), last, false},
		} {
			read, err := gitwire.Follow(strings.NewReader(c.pack), []gitwire.Move{{Ref: "refs/heads/x", Old: c.from, New: c.to}})
			var no gitwire.Refusal
			if (err == nil) != c.follows || err != nil && (!errors.As(err, &no) || !strings.Contains(string(no), "the push of refs/heads/x is forced")) {
				t.Errorf("%s, %s: have %v", format, name, err)
			}
			if !strings.HasPrefix(c.pack, string(read)) {
				t.Errorf("%s, %s: what was read is not what was sent", format, name)
			}
		}
		moves := []gitwire.Move{{Ref: "refs/heads/x", Old: base, New: last}, {Ref: "refs/heads/y", Old: last, New: side}}
		if _, err := gitwire.Follow(strings.NewReader(whole), moves); err == nil || !strings.Contains(err.Error(), "refs/heads/y") {
			t.Errorf("%s: the second of two is forced: have %v", format, err)
		}
	}
}

// M-51: commits in whose texts parents stand elsewhere follow nothing by them.
func TestAParentIsWhatGitTakesForOne(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "sha1")
	base := r.commit("base")
	tree := r.git("", "rev-parse", "HEAD^{tree}")
	for name, text := range map[string]string{
		"in the message":    "tree " + tree + "\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nparent " + base + "\n",
		"behind the author": "tree " + tree + "\nauthor a <a> 0 +0000\nparent " + base + "\ncommitter a <a> 0 +0000\n\nx\n",
		"before the tree":   "parent " + base + "\ntree " + tree + "\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n",
	} {
		id := r.git(text, "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
		pack := r.git(id+"\n", "pack-objects", "--stdout", "-q") + "\n"
		if _, err := gitwire.Follow(strings.NewReader(pack), []gitwire.Move{{Ref: "refs/heads/x", Old: base, New: id}}); err == nil {
			t.Errorf("%s: it follows", name)
		}
	}
}

// A pack that nobody vetted ends in a refusal or a yes, and what was read of it is what was sent.
func FuzzFollow(f *testing.F) {
	r := newRepository(f, "sha1")
	base := r.commit("base")
	last := r.commit("last")
	f.Add([]byte(r.pack(base, last, "--delta-base-offset")))
	f.Fuzz(func(t *testing.T, pack []byte) {
		read, err := gitwire.Follow(bytes.NewReader(pack), []gitwire.Move{{Ref: "refs/heads/x", Old: base, New: last}})
		var no gitwire.Refusal
		if err != nil && !errors.As(err, &no) || !bytes.HasPrefix(pack, read) {
			t.Errorf("%v, read %d of %d", err, len(read), len(pack))
		}
	})
}

// Of a push only so many commits are read, however short they are: each takes memory. What they do
// not show is refused.
func TestOnlySoManyCommitsOfAPushAreRead(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("1", 40)
	last := fmt.Sprintf("tree %s\nparent %s\n", strings.Repeat("2", 40), old)
	z := zlib.NewWriter(nil) // one for all: a new one takes a megabyte
	object := func(text string) string {
		var b bytes.Buffer
		z.Reset(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return string([]byte{0x90 | byte(len(text)&15), byte(len(text) >> 4)}) + b.String()
	}
	sum := sha1.Sum(fmt.Appendf(nil, "commit %d\x00%s", len(last), last))
	for beside, follows := range map[int]bool{100: true, 40_000: false} {
		var pack strings.Builder
		pack.WriteString("PACK\x00\x00\x00\x02\x00\x0f\xff\xff")
		for i := range beside {
			pack.WriteString(object(fmt.Sprint("tree ", i)))
		}
		pack.WriteString(object(last))
		_, err := gitwire.Follow(strings.NewReader(pack.String()), []gitwire.Move{{Ref: "refs/heads/x", Old: old, New: hex.EncodeToString(sum[:])}})
		if (err == nil) != follows {
			t.Errorf("behind %d others: have %v", beside, err)
		}
	}
}

package install_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/install"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// object writes an object that no git command of a person's would make.
func (r *repository) object(kind string, content []byte) string {
	r.Helper()
	cmd := exec.Command("git", "-C", r.dir, "hash-object", "--literally", "-w", "-t", kind, "--stdin")
	cmd.Stdin = bytes.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		r.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// entry is one of a tree.
type entry struct{ mode, name, id string }

// commitTree makes a commit of a tree that holds the plugin and more, and has
// main lead to it.
func (r *repository) commitTree(more ...entry) {
	r.Helper()
	r.point(r.tree(append([]entry{
		{"100644", "handler.py", r.object("blob", []byte("print('one')\n"))}, {"100644", "manifest.json", r.object("blob", []byte(manifest))},
	}, more...)...))
}

func (r *repository) tree(entries ...entry) string {
	r.Helper()
	order := func(e entry) string { // folders as if they ended with a slash
		if e.mode == "40000" {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(order(a), order(b)) })
	var content bytes.Buffer
	for _, e := range entries {
		var id []byte
		if _, err := fmt.Sscanf(e.id, "%x", &id); err != nil {
			r.Fatal(err)
		}
		fmt.Fprintf(&content, "%s %s\x00%s", e.mode, e.name, id)
	}
	return r.object("tree", content.Bytes())
}

func (r *repository) point(tree string) {
	r.Helper()
	commit := r.object("commit", []byte("tree "+tree+"\nauthor t <t@example.invalid> 1 +0000\ncommitter t <t@example.invalid> 1 +0000\n\nx\n"))
	r.git("update-ref", "refs/heads/main", commit)
}

// D-28: nothing that a repository holds is run, or leads anywhere.
func TestHostileRepositories(t *testing.T) {
	t.Parallel()
	blob := func(r *repository, text string) string { return r.object("blob", []byte(text)) }
	for name, c := range map[string]struct {
		make func(r *repository)
		want string // in the error
	}{
		"a symbolic link out":       {func(r *repository) { r.commitTree(entry{"120000", "x", blob(r, "../../etc/passwd")}) }, "symbolic link"},
		"a link in place of a file": {func(r *repository) { r.commitTree(entry{"120000", "skill", blob(r, "/etc")}) }, "symbolic link"},
		"a submodule":               {func(r *repository) { r.commitTree(entry{"160000", "sub", r.git("rev-parse", "HEAD")}) }, "submodule"},
		"a name with ..":            {func(r *repository) { r.commitTree(entry{"100644", "..", blob(r, "x")}) }, ""},
		"a path with ..":            {func(r *repository) { r.commitTree(entry{"100644", "../x", blob(r, "x")}) }, ""},
		"a folder called ..":        {func(r *repository) { r.commitTree(entry{"40000", "..", r.tree(entry{"100644", "x", blob(r, "x")})}) }, ""},
		"an absolute path":          {func(r *repository) { r.commitTree(entry{"100644", "/tmp/x", blob(r, "x")}) }, ""},
		"a .git folder": {func(r *repository) {
			r.commitTree(entry{"40000", ".git", r.tree(entry{"100644", "config", blob(r, "x")})})
		}, ""},
		"a .GIT folder": {func(r *repository) {
			r.commitTree(entry{"40000", ".GIT", r.tree(entry{"100644", "config", blob(r, "x")})})
		}, ""},
		"a backslash":            {func(r *repository) { r.commitTree(entry{"100644", `a\..\b`, blob(r, "x")}) }, ""},
		"a control character":    {func(r *repository) { r.commitTree(entry{"100644", "a\x1b[2J", blob(r, "x")}) }, "control character"},
		"a line's end in a name": {func(r *repository) { r.commitTree(entry{"100644", "a\nb", blob(r, "x")}) }, "control character"},
		"bad UTF-8 in a name":    {func(r *repository) { r.commitTree(entry{"100644", "a\xff", blob(r, "x")}) }, "UTF-8"},
		"names that differ in case": {func(r *repository) {
			r.point(r.tree(entry{"100644", "Handler.py", blob(r, "x")}, entry{"100644", "handler.py", blob(r, "y")}, entry{"100644", "manifest.json", blob(r, manifest)}))
		}, "differ in case"},
		"folders that differ in case": {func(r *repository) {
			r.commitTree(entry{"40000", "s", r.tree(entry{"100644", "a", blob(r, "x")})}, entry{"40000", "ſ", r.tree(entry{"100644", "b", blob(r, "x")})})
		}, "differ in case"},
		"one name in two spellings": {func(r *repository) {
			r.commitTree(entry{"100644", "ne\u0301", blob(r, "x")}, entry{"100644", "n\u00e9", blob(r, "x")})
		}, "differ in case"},
		"one name twice": {func(r *repository) {
			r.commitTree(entry{"100644", "x", blob(r, "x")}, entry{"100644", "x", blob(r, "y")})
		}, ""},
		"a file in storage": {func(r *repository) {
			r.commitTree(entry{"100644", "x", blob(r, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")})
		}, "large file storage"},
		"a tree that unfolds": {func(r *repository) {
			at := r.tree(entry{"100644", "f", blob(r, "x")})
			for range 10 {
				at = r.tree(entry{"40000", "a", at}, entry{"40000", "b", at}, entry{"40000", "c", at}, entry{"40000", "d", at}, entry{"40000", "e", at}, entry{"40000", "f", at}, entry{"40000", "g", at}, entry{"40000", "h", at})
			}
			r.commitTree(entry{"40000", "z", at})
		}, "more than"},
		"a tree that is deep": {func(r *repository) {
			at := r.tree(entry{"100644", "f", blob(r, "x")})
			for range 100 {
				at = r.tree(entry{"40000", "a", at})
			}
			r.commitTree(entry{"40000", "z", at})
		}, "deeper than"},
		"many files": {func(r *repository) {
			id := blob(r, "x")
			var all []entry
			for i := range 10_001 {
				all = append(all, entry{"100644", fmt.Sprintf("%06d", i), id})
			}
			r.commitTree(entry{"40000", "z", r.tree(all...)})
		}, "more than 10000 files"},
		"a huge file": {func(r *repository) {
			path := filepath.Join(r.dir, "huge")
			f, err := os.Create(path)
			if err == nil {
				err = f.Truncate(129 << 20)
			}
			if err != nil {
				r.Fatal(err)
			}
			_ = f.Close()
			r.git("config", "core.compression", "0")
			r.commit("huge")
		}, "bytes"},
		"no files at all": {func(r *repository) { r.point(r.tree()) }, "no files"},
		"no manifest":     {func(r *repository) { r.point(r.tree(entry{"100644", "x", blob(r, "x")})) }, "manifest.json"},
		"a bad manifest":  {func(r *repository) { r.point(r.tree(entry{"100644", "manifest.json", blob(r, "{")})) }, "manifest.json: line 1: not JSON"},
		"no commit":       {func(r *repository) { r.git("update-ref", "-d", "refs/heads/main") }, ""},
		"a blob for HEAD": {func(r *repository) {
			r.git("update-ref", "refs/tags/blob", blob(r, "x"))
			r.git("symbolic-ref", "HEAD", "refs/tags/blob")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, r := newHouse(t), newRepository(t, "notes")
			c.make(r)
			if _, err := h.install(r.url()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want %q", err, c.want)
			}
			if len(h.asked) > 0 {
				t.Error("somebody was asked")
			}
			h.holds(0)
		})
	}
}

// D-28: hooks, filters, attributes and configuration of a repository count for nothing.
func TestNothingOfARepositoryIsRun(t *testing.T) {
	t.Parallel()
	h, r := newHouse(t), newRepository(t, "notes")
	mark := filepath.Join(t.TempDir(), "ran")
	touch := "#!/bin/sh\ntouch " + mark + "\n"
	write(t, filepath.Join(r.dir, ".gitattributes"), "* filter=evil diff=evil merge=evil eol=crlf ident\nhandler.py export-ignore\n")
	write(t, filepath.Join(r.dir, ".gitmodules"), "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c \"touch "+mark+"\"\n")
	write(t, filepath.Join(r.dir, "handler.py"), "# $Id$\nprint('one')\n")
	r.commit("attributes")
	for key, value := range map[string]string{
		"filter.evil.smudge": "touch " + mark, "filter.evil.process": "touch " + mark, "core.fsmonitor": "touch " + mark, "core.sshCommand": "touch " + mark,
		"uploadpack.packObjectsHook": "touch " + mark, "core.alternateRefsCommand": "touch " + mark, "core.hooksPath": filepath.Join(r.dir, ".git", "hooks"),
	} {
		r.git("config", key, value)
	}
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction", "pre-receive", "update", "post-update", "fsmonitor-watchman", "post-index-change"} {
		write(t, filepath.Join(r.dir, ".git", "hooks", hook), touch)
		if err := os.Chmod(filepath.Join(r.dir, ".git", "hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{r.url(), r.dir} {
		if _, err := h.store.Install(t.Context(), install.Order{Source: source, Name: "x" + plainName(source), Agree: h.yes}); err != nil && !strings.Contains(err.Error(), "gitmodules") {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("something of the repository was run")
	}
	text, err := os.ReadFile(filepath.Join(h.found("xfolder").Dir, "handler.py"))
	if err != nil || string(text) != "# $Id$\nprint('one')\n" {
		t.Errorf("have %q, %v", text, err)
	}
}

func plainName(source string) (name nameOf) {
	if strings.HasPrefix(source, "file:") {
		return "git"
	}
	return "folder"
}

// D-28: folders that lead out of themselves.
func TestHostileFolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"a link":            {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "x")) }, "link"},
		"a link to itself":  {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "x")) }, "link"},
		"a nested .git":     {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "a", ".git", "x"), 0o755) }, "belongs to git"},
		"a bad name":        {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a\x1b"), nil, 0o600) }, "control character"},
		"names in two ways": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "HANDLER.PY"), nil, 0o600) }, "differ in case"},
		"a pipe":            {func(dir string) error { return exec.Command("mkfifo", filepath.Join(dir, "x")).Run() }, "special file"},
		"a large file":      {func(dir string) error { return truncated(filepath.Join(dir, "x"), 129<<20) }, "bytes"},
		"large files": {func(dir string) error {
			for i := range 5 {
				if err := truncated(filepath.Join(dir, fmt.Sprint(i)), 110<<20); err != nil {
					return err
				}
			}
			return nil
		}, "bytes in all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, r := newHouse(t), newRepository(t, "notes")
			if err := c.make(r.dir); err != nil {
				t.Fatal(err)
			}
			if _, err := h.install(r.dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want %q", err, c.want)
			}
			h.holds(0)
		})
	}
}

func truncated(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

// D-28: the way that most plugins come.
func TestInstallOverHTTPS(t *testing.T) {
	t.Parallel()
	h, r := newHouse(t), newRepository(t, "notes")
	git := testpeer.Need(t, "git")
	server := httptest.NewTLSServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: filepath.Dir(r.dir),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"}, InheritEnv: []string{"PATH"},
	})
	defer server.Close()
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	write(t, certificate, pemOf(server))
	url := server.URL + "/notes/.git"
	order := install.Order{Source: url, Name: "notes", Agree: h.yes}
	if _, err := h.store.Install(t.Context(), order); err == nil {
		t.Fatal("a certificate that nobody trusts: accepted")
	}
	h.store.Getenv = func(name string) string {
		return map[string]string{"GIT_SSL_CAINFO": certificate, "NO_PROXY": "127.0.0.1"}[name]
	}
	done, err := h.store.Install(t.Context(), order)
	if err != nil || done.Commit != r.git("rev-parse", "HEAD") {
		t.Fatalf("have %+v, %v", done, err)
	}
	away := httptest.NewTLSServer(http.RedirectHandler("file://"+r.dir, http.StatusFound))
	defer away.Close()
	order.Source, order.Name = away.URL+"/notes.git", "away"
	write(t, certificate, pemOf(server)+pemOf(away))
	if _, err := h.store.Install(t.Context(), order); err == nil {
		t.Error("led to a file: followed")
	}
}

// D-28: the record of what was agreed to is read in one way, or not at all.
func TestLockFile(t *testing.T) {
	t.Parallel()
	h, r := newHouse(t), newRepository(t, "notes")
	if _, err := h.install(r.url()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(h.store.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.store.LockFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v, %v", info.Mode(), err)
	}
	for name, c := range map[string]struct{ from, to string }{
		"half":            {"}\n", ""},
		"a key twice":     {`"ref"`, `"source": "x", "ref"`},
		"an unknown key":  {`"ref"`, `"trusted": true, "ref"`},
		"another format":  {`"format": 1`, `"format": 2`},
		"no format":       {`"format": 1,`, ``},
		"a bad hash":      {`"sha256:`, `"sha512:`},
		"a bad folder":    {`"folder": "`, `"folder": "../`},
		"a bad project":   {`"project": ""`, `"project": "all"`},
		"a bad name":      {`"notes":`, `"../notes":`},
		"null":            {string(good), "null"},
		"a null plugin":   {string(good), `{"format":1,"plugins":{"notes":null}}`},
		"something after": {string(good), string(good) + "{}"},
	} {
		text := strings.Replace(string(good), c.from, c.to, 1)
		if name == "half" {
			text = text[:len(text)/2]
		}
		if text == string(good) {
			t.Errorf("%s: the case changes nothing", name)
		}
		write(t, h.store.LockFile, text)
		if _, err := consent.Load(h.store.LockFile); err == nil || !strings.Contains(err.Error(), h.store.LockFile) {
			t.Errorf("%s: have %v", name, err)
		}
		if _, err := h.update("notes"); err == nil {
			t.Errorf("%s: updated", name)
		}
	}
}

// FuzzLock: a lock file is refused, or confirms only what it says.
func FuzzLock(f *testing.F) {
	version := `{"version":"1","commit":"","hash":"sha256:` + strings.Repeat("0", 64) + `","folder":"","confirmed_at":"2026-01-01T00:00:00Z","wants":{"tools":[],"hosts":["a"],"credentials":[],"project":"","listen":false,"channels":[],"hooks":[],"subscribes":[],"server":""}}`
	corpus.Add(f, []byte(`{"format":1,"plugins":{"notes":{"source":"","ref":"","current":`+version+`}}}`))
	corpus.Add(f, []byte(`{"format":1,"plugins":{}}`))
	corpus.Add(f, []byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "plugins.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := consent.Load(path)
		if err != nil {
			return
		}
		a, err := l.Confirmed("notes", "sha256:"+strings.Repeat("0", 64))
		if err == nil && !a.Confirmed && (len(a.Hosts) > 0 || a.Listen || a.Project != "") {
			t.Errorf("nobody confirmed %+v", a)
		}
		if raw, err := json.Marshal(l); err != nil || !json.Valid(raw) {
			t.Error(err)
		}
	})
}

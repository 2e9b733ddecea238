package install_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/install"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const manifest = `{"description":"d","version":"1.0.0","handler":["python3","handler.py"],"hosts":["api.example.com"],
"install":{"credentials":[{"key":"token"}]},
"provides":{"tools":[{"name":"note_add","description":"d","arguments_schema":{"type":"object","additionalProperties":false}}]}}`

// house is an installation, and a place for repositories.
type house struct {
	*testing.T
	store *install.Store
	asked []install.Plan
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	return &house{T: t, store: &install.Store{
		Plugins: filepath.Join(dir, "plugins"), LockFile: filepath.Join(dir, "state", "plugins.json"),
		Now: func() time.Time { return time.Unix(1_000_000, 0) }, Getenv: func(string) string { return "" },
	}}
}

func (h *house) yes(p install.Plan) error {
	h.asked = append(h.asked, p)
	return nil
}

func (h *house) install(source string) (install.Done, error) {
	return h.store.Install(h.Context(), install.Order{Source: source, Agree: h.yes})
}

func (h *house) update(name string) (install.Done, error) {
	return h.store.Update(h.Context(), install.Order{Name: nacre.PluginName(name), Agree: h.yes})
}

// found is the plugin as the host finds it.
func (h *house) found(name string) pluginhost.Found {
	h.Helper()
	all, err := pluginhost.Discover(h.store.Plugins)
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range all {
		if string(f.Name) == name {
			return f
		}
	}
	h.Fatalf("no plugin %s among %v", name, all)
	return pluginhost.Found{}
}

func (h *house) access(name string) (consent.Access, error) {
	h.Helper()
	l, err := consent.Load(h.store.LockFile)
	if err != nil {
		h.Fatal(err)
	}
	f := h.found(name)
	return l.Confirmed(f.Name, f.Hash)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// repository is a git repository that holds a plugin.
type repository struct {
	testing.TB
	dir string
}

func newRepository(t testing.TB, name string) *repository {
	t.Helper()
	testpeer.Need(t, "git")
	r := &repository{t, filepath.Join(t.TempDir(), name)}
	write(t, filepath.Join(r.dir, "manifest.json"), manifest)
	write(t, filepath.Join(r.dir, "handler.py"), "print('one')\n")
	r.git("init", "-q", "-b", "main")
	r.commit("first")
	return r
}

func (r *repository) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.invalid",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repository) commit(message string) string {
	r.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

func (r *repository) url() string { return "file://" + r.dir }

// D-28: a plugin comes from a git repository, pinned to a commit and a hash.
func TestInstallFromGit(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes.git")
	commit := r.git("rev-parse", "HEAD")
	done, err := h.install(r.url())
	if err != nil {
		t.Fatal(err)
	}
	f := h.found("notes")
	if done.Name != "notes" || done.Commit != commit || done.Hash != f.Hash || f.Err != nil {
		t.Errorf("have %+v, found %+v", done, f)
	}
	if len(h.asked) != 1 || h.asked[0].Update || len(h.asked[0].Wants.Rows()) != 3 {
		t.Errorf("asked %+v", h.asked)
	}
	if _, err := os.Lstat(filepath.Join(f.Dir, ".git")); err == nil {
		t.Error("git's folder is there")
	}
	a, err := h.access("notes")
	if err != nil || !a.Confirmed || strings.Join(a.Hosts, " ") != "api.example.com" || strings.Join(a.Credentials, " ") != "token" {
		t.Errorf("have %+v, %v", a, err)
	}
	if _, err := h.install(r.url()); err == nil || !strings.Contains(err.Error(), "nacre plugin update notes") {
		t.Errorf("a second time: have %v", err)
	}
}

// D-28: each kind of ref, and one that is not there.
func TestInstallRef(t *testing.T) {
	r := newRepository(t, "notes")
	first := r.git("rev-parse", "HEAD")
	r.git("tag", "v1")
	r.git("tag", "-a", "-m", "x", "v1-annotated")
	write(t, filepath.Join(r.dir, "handler.py"), "print('two')\n")
	r.git("checkout", "-q", "-b", "next")
	r.commit("second")
	r.git("checkout", "-q", "main")
	for ref, want := range map[string]string{"": first, "v1": first, "v1-annotated": first, "main": first, first: first, "next": r.git("rev-parse", "next")} {
		h := newHouse(t)
		done, err := h.store.Install(t.Context(), install.Order{Source: r.url(), Ref: ref, Agree: h.yes})
		if err != nil || done.Commit != want {
			t.Errorf("%q: have %s, %v, want %s", ref, done.Commit, err, want)
		}
	}
	h := newHouse(t)
	for _, ref := range []string{"none", "--upload-pack=touch x", "main..next", "refs/heads/*", "a b"} {
		if _, err := h.store.Install(t.Context(), install.Order{Source: r.url(), Ref: ref, Agree: h.yes}); err == nil {
			t.Errorf("%q: accepted", ref)
		}
	}
	if len(h.asked) > 0 {
		t.Error("asked for nothing")
	}
}

// D-28: a folder is copied, without its .git, and executable bits stay.
func TestInstallFromFolder(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "Notes")
	if err := os.Chmod(filepath.Join(r.dir, "handler.py"), 0o750); err != nil {
		t.Fatal(err)
	}
	done, err := h.install(r.dir)
	if err != nil || done.Name != "notes" || done.Commit != "" {
		t.Fatalf("have %+v, %v", done, err)
	}
	f := h.found("notes")
	entries, err := os.ReadDir(f.Dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("have %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(f.Dir, "handler.py")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("have %v, %v", info, err)
	}
	if _, err := h.store.Install(t.Context(), install.Order{Source: r.dir, Name: "other", Ref: "main", Agree: h.yes}); err == nil {
		t.Error("a ref of a folder: accepted")
	}
}

// D-28: whoever says no has nothing.
func TestNo(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes")
	refused := errors.New("no")
	_, err := h.store.Install(t.Context(), install.Order{Source: r.url(), Agree: func(install.Plan) error { return refused }})
	if !errors.Is(err, refused) {
		t.Errorf("have %v", err)
	}
	h.holds(0)
}

// holds counts the plugins that the host finds, and that nothing is left in between.
func (h *house) holds(want int) {
	h.Helper()
	found, err := pluginhost.Discover(h.store.Plugins)
	if err != nil || len(found) != want {
		h.Errorf("have %d plugins, want %d (%v)", len(found), want, err)
	}
	left, _ := filepath.Glob(filepath.Join(h.store.Plugins, ".store", ".*"))
	if len(left) > 0 {
		h.Errorf("left behind: %v", left)
	}
}

// D-28: an update that wants no more is not asked about again; one that wants more is.
func TestUpdate(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes")
	first, err := h.install(r.url())
	if err != nil {
		t.Fatal(err)
	}
	if done, err := h.update("notes"); err != nil || done.Changed || len(h.asked) != 1 {
		t.Errorf("nothing new: have %+v, %v", done, err)
	}
	write(t, filepath.Join(r.dir, "handler.py"), "print('two')\n")
	second := r.commit("second")
	if done, err := h.update("notes"); err != nil || !done.Changed || done.Commit != second || len(h.asked[1].Beyond) != 0 {
		t.Errorf("new code: have %+v, %v", done, err)
	}
	write(t, filepath.Join(r.dir, "manifest.json"), strings.Replace(manifest, `"api.example.com"`, `"api.example.com","other.example.com"`, 1))
	r.commit("third")
	refused := errors.New("no")
	_, err = h.store.Update(t.Context(), install.Order{Name: "notes", Agree: func(p install.Plan) error {
		if strings.Join(p.Beyond, ";") != "host other.example.com" || !p.Update {
			t.Errorf("have %+v", p)
		}
		return refused
	}})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if a, err := h.access("notes"); err != nil || len(a.Hosts) != 1 {
		t.Errorf("after a no: have %+v, %v", a, err)
	}
	if _, err := h.update("notes"); err != nil {
		t.Fatal(err)
	}
	if a, err := h.access("notes"); err != nil || len(a.Hosts) != 2 {
		t.Errorf("after a yes: have %+v, %v", a, err)
	}
	done, err := h.store.Rollback("notes", h.yes)
	if err != nil || done.Commit != second || h.found("notes").Hash != done.Hash {
		t.Errorf("rollback: have %+v, %v", done, err)
	}
	if a, err := h.access("notes"); err != nil || len(a.Hosts) != 1 {
		t.Errorf("after a rollback: have %+v, %v", a, err)
	}
	versions, _ := filepath.Glob(filepath.Join(h.store.Plugins, ".store", "notes", "*"))
	if len(versions) != 2 || first.Hash == done.Hash {
		t.Errorf("kept %v", versions)
	}
	if _, err := h.store.Remove("notes"); err != nil {
		t.Error(err)
	}
	h.holds(0)
	if left, _ := filepath.Glob(filepath.Join(h.store.Plugins, ".store", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// D-28: what was confirmed is what may run.
func TestChangedFolderIsRefused(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes")
	if _, err := h.install(r.url()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.found("notes").Dir, "handler.py")
	write(t, path, "print('mine')\n")
	if _, err := h.access("notes"); err == nil || !strings.Contains(err.Error(), "nacre plugin update notes") || !strings.Contains(err.Error(), "nacre plugin confirm notes") {
		t.Fatalf("have %v", err)
	}
	if done, err := h.store.Confirm("notes", h.yes); err != nil || !done.Changed {
		t.Errorf("confirm: have %+v, %v", done, err)
	}
	if _, err := h.access("notes"); err != nil {
		t.Error(err)
	}
	if done, err := h.update("notes"); err != nil || !done.Changed {
		t.Errorf("update: have %+v, %v", done, err)
	}
	if text, err := os.ReadFile(filepath.Join(h.found("notes").Dir, "handler.py")); err != nil || string(text) != "print('one')\n" {
		t.Errorf("have %s, %v", text, err)
	}
}

// D-28: a folder that was put there by hand has nothing until it is confirmed.
func TestConfirmADroppedFolder(t *testing.T) {
	h := newHouse(t)
	dir := filepath.Join(h.store.Plugins, "dropped")
	write(t, filepath.Join(dir, "manifest.json"), manifest)
	write(t, filepath.Join(dir, "handler.py"), "print('one')\n")
	if a, err := h.access("dropped"); err != nil || a.Confirmed || len(a.Hosts) > 0 {
		t.Errorf("before: have %+v, %v", a, err)
	}
	if _, err := h.store.Confirm("dropped", h.yes); err != nil {
		t.Fatal(err)
	}
	if a, err := h.access("dropped"); err != nil || !a.Confirmed || len(a.Hosts) != 1 {
		t.Errorf("after: have %+v, %v", a, err)
	}
	write(t, filepath.Join(dir, "more.py"), "")
	if _, err := h.access("dropped"); err == nil {
		t.Error("changed: accepted")
	}
	if _, err := h.update("dropped"); err == nil {
		t.Error("updated a folder without a source")
	}
	if _, err := h.install(newRepository(t, "dropped").url()); err == nil || !strings.Contains(err.Error(), "was not installed") {
		t.Errorf("install over it: have %v", err)
	}
	if _, err := h.store.Remove("dropped"); err != nil {
		t.Error(err)
	}
	if a, err := h.access("dropped"); err != nil || a.Confirmed {
		t.Errorf("forgotten: have %+v, %v", a, err)
	}
}

// D-28: what cannot be fetched safely is refused by its name alone.
func TestSourcesThatAreRefused(t *testing.T) {
	h := newHouse(t)
	for source, want := range map[string]string{
		"":                                  "name a git URL",
		"http://example.com/notes.git":      "not protected",
		"git://example.com/notes.git":       "not protected",
		"ext::sh -c touch% /tmp/x":          "helpers",
		"ftp://example.com/notes":           "use an https",
		"https://u:p@example.com/notes.git": "password",
		"https://tok@example.com/notes.git": "password",
		"ssh://-oProxyCommand=x/notes":      "",
		"ssh://-l@example.com/notes":        "",
		"-oProxyCommand=x@example.com:a":    "",
		"https://example.com/notes?x=1":     "--ref",
		"https://example.com/":              "no repository",
		"file://host/notes":                 "file:///",
		"file://notes":                      "file:///",
		"/nowhere/at/all":                   "no such file",
		"https://example.com/n\notes":       "name a git URL",
		"https://example.com/..":            "",
		strings.Repeat("x", 5000):           "name a git URL",
	} {
		if _, err := h.install(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: have %v, want %q", source, err, want)
		}
	}
	h.holds(0)
}

type nameOf = nacre.PluginName

func pemOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// D-28: whoever is killed at any time leaves the old version or the new one,
// and either may run.
func TestKilledInTheMiddle(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes")
	if os.Getenv(workVariable) != "" {
		t.Skip("this is the one that is killed")
	}
	if _, err := h.install(r.url()); err != nil {
		t.Fatal(err)
	}
	old := h.found("notes").Hash
	for turn := range 40 {
		write(t, filepath.Join(r.dir, "handler.py"), fmt.Sprintf("print(%d)\n", turn))
		r.commit("next")
		cmd := exec.Command(os.Args[0], "-test.run=^TestUpdateUntilKilled$")
		cmd.Env = append(os.Environ(), workVariable+"="+filepath.Dir(h.store.Plugins), "TMPDIR="+t.TempDir()) // what it leaves goes with the test
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it has begun to put things in place
		for range turn * 200 {
			runtime.Gosched()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		f := h.found("notes")
		if f.Err != nil {
			t.Fatalf("turn %d: %v", turn, f.Err)
		}
		if a, err := h.access("notes"); err != nil || !a.Confirmed {
			t.Fatalf("turn %d: %+v, %v", turn, a, err)
		}
		if f.Hash != old {
			old = f.Hash
		}
	}
	if _, err := h.update("notes"); err != nil {
		t.Fatal(err)
	}
	h.holds(1)
}

const workVariable = "NACRE_TEST_INSTALL"

// TestUpdateUntilKilled is the process that TestKilledInTheMiddle kills.
func TestUpdateUntilKilled(t *testing.T) {
	dir := os.Getenv(workVariable)
	if dir == "" {
		t.Skip("only under TestKilledInTheMiddle")
	}
	h := newHouse(t)
	h.store.Plugins, h.store.LockFile = filepath.Join(dir, "plugins"), filepath.Join(dir, "state", "plugins.json")
	_, err := h.store.Update(t.Context(), install.Order{Name: "notes", Agree: func(install.Plan) error {
		_, err := os.Stdout.WriteString(".")
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// D-28: two at once leave one of them.
func TestTwoAtOnce(t *testing.T) {
	h, r := newHouse(t), newRepository(t, "notes")
	var all sync.WaitGroup
	var done atomic.Int32
	for range 4 {
		all.Go(func() {
			_, err := h.store.Install(t.Context(), install.Order{Source: r.url(), Agree: func(install.Plan) error { return nil }})
			if err == nil {
				done.Add(1)
			} else if !strings.Contains(err.Error(), "installed already") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Errorf("%d were installed", done.Load())
	}
	if _, err := h.access("notes"); err != nil {
		t.Error(err)
	}
	h.holds(1)
}

// D-28: what counts as wanting more, guards that fall away included.
func TestBeyond(t *testing.T) {
	tool := consent.ToolWant{Name: "a", Safety: "WRITE", HighRisk: true, Sensitivity: "NONE", Returns: "untrusted", Sinks: []string{"to"}}
	base := consent.Wants{Tools: []consent.ToolWant{tool}, Hosts: []string{"a.example.com"}, Project: "read"}
	for name, c := range map[string]struct {
		change func(w *consent.Wants, t *consent.ToolWant)
		want   string
	}{
		"nothing":           {func(*consent.Wants, *consent.ToolWant) {}, ""},
		"less":              {func(w *consent.Wants, t *consent.ToolWant) { w.Hosts, w.Project, t.Safety = nil, "", "READ" }, ""},
		"a host":            {func(w *consent.Wants, _ *consent.ToolWant) { w.Hosts = []string{"a.example.com", "*"} }, "host *"},
		"a credential":      {func(w *consent.Wants, _ *consent.ToolWant) { w.Credentials = []string{"k"} }, "credential k"},
		"a variable":        {func(w *consent.Wants, _ *consent.ToolWant) { w.Env = []string{"API_KEY=k"} }, "credential in the environment, API_KEY=k"},
		"a channel":         {func(w *consent.Wants, _ *consent.ToolWant) { w.Channels = []string{"c"} }, "channel c"},
		"a hook":            {func(w *consent.Wants, _ *consent.ToolWant) { w.Hooks = []string{"h"} }, "hook h"},
		"events":            {func(w *consent.Wants, _ *consent.ToolWant) { w.Subscribes = []string{"m."} }, "events m."},
		"more of a project": {func(w *consent.Wants, _ *consent.ToolWant) { w.Project = "write" }, "project write"},
		"connections":       {func(w *consent.Wants, _ *consent.ToolWant) { w.Listen = true }, "takes connections"},
		"a server":          {func(w *consent.Wants, _ *consent.ToolWant) { w.Server = "https://x" }, "server https://x"},
		"a worse class":     {func(_ *consent.Wants, t *consent.ToolWant) { t.Safety = "DESTRUCTIVE" }, "is DESTRUCTIVE, was WRITE"},
		"no more asking":    {func(_ *consent.Wants, t *consent.ToolWant) { t.HighRisk = false }, "asks nobody any more"},
		"trust":             {func(_ *consent.Wants, t *consent.ToolWant) { t.Returns = "trusted" }, "trusted"},
		"a guard less":      {func(_ *consent.Wants, t *consent.ToolWant) { t.Sinks = nil }, "no longer guards the argument to"},
		"files":             {func(_ *consent.Wants, t *consent.ToolWant) { t.Files = []string{"f"} }, "gets the files"},
		"another tool":      {func(_ *consent.Wants, t *consent.ToolWant) { t.Name = "b" }, "tool b"},
		"other data":        {func(_ *consent.Wants, t *consent.ToolWant) { t.Sensitivity = "PII" }, "handles PII"},
	} {
		now, t2 := base, tool
		c.change(&now, &t2)
		now.Tools = []consent.ToolWant{t2}
		have := strings.Join(now.Beyond(base), ";")
		if c.want == "" && have != "" || !strings.Contains(have, c.want) {
			t.Errorf("%s: have %q, want %q", name, have, c.want)
		}
	}
}

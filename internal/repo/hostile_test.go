package repo_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/borrowed"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// trap is a repository in which every way that git has to run a program leads
// to one that leaves a mark.
type trap struct {
	*user
	mark, script string
}

var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
	"post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive",
	"post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate",
	"fsmonitor-watchman", "post-index-change", "query-watchman",
}

func setTrap(t *testing.T, files map[string]string) *trap {
	t.Helper()
	u := prepare(t, fmt.Sprintf("trap %q", files), func(u *user) { unarmed(u, files) }).user(t)
	dir := t.TempDir()
	tr := &trap{user: u, mark: filepath.Join(dir, "mark"), script: filepath.Join(dir, "run me")}
	script := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >> '%s'\ncat 2>/dev/null\nexit 0\n", tr.mark)
	if err := testpeer.WriteProgram(tr.script, script); err != nil {
		t.Fatal(err)
	}
	tr.arm()
	return tr
}

// unarmed commits what a trap is set in, with attributes that name its programs.
func unarmed(u *user, files map[string]string) {
	initialized(u)
	u.write(files)
	u.write(map[string]string{".gitattributes": "* filter=evil diff=evil merge=evil ident text eol=crlf working-tree-encoding=UTF-16\n"})
	u.git("config", "core.attributesFile", "/dev/null")
	// The commit itself is made without any of it.
	u.write(map[string]string{".git/info/attributes": "* -text !filter !ident !eol !working-tree-encoding\n"})
	u.commit("base")
	remove(u.t, filepath.Join(u.dir, ".git/info/attributes"))
}

func (tr *trap) arm() {
	quoted := fmt.Sprintf("%q", "'"+tr.script+"'")
	plain := fmt.Sprintf("%q", tr.script)
	var config strings.Builder
	for section, keys := range map[string]string{
		`filter "evil"`: "clean = <q>\nsmudge = <q>\nprocess = <q>\nrequired = true\n",
		`diff "evil"`:   "command = <q>\ntextconv = <q>\nxfuncname = x\n",
		`merge "evil"`:  "driver = <q>\n",
		"diff":          "external = <q>\n",
		"core": "fsmonitor = <p>\nsshCommand = <q>\npager = <q>\neditor = <q>\ngitProxy = <p>\naskPass = <p>\nalternateRefsCommand = <q>\n" +
			"untrackedCache = true\nsplitIndex = false\n",
		"sequence": "editor = <q>\n", "interactive": "diffFilter = <q>\n", "credential": "helper = \"!<z>\"\n",
		"uploadpack": "packObjectsHook = <p>\n", "gpg": "program = <p>\n", "commit": "gpgSign = true\n", "tag": "gpgSign = true\n",
		`gpg "ssh"`: "program = <p>\ndefaultKeyCommand = <p>\n", `trailer "x"`: "command = <p>\ncmd = <p>\n",
		"alias":     "status = \"!<z>\"\nread-tree = \"!<z>\"\nupdate-ref = \"!<z>\"\nrev-parse = \"!<z>\"\ncat-file = \"!<z>\"\n",
		"extension": "x = y\n", "maintenance": "auto = true\n", "gc": "auto = 1\n",
		`remote "evil"`: "url = \"ext::<z>\"\nuploadpack = <p>\nreceivepack = <p>\npromisor = true\nvcs = <p>\n",
	} {
		keys = strings.NewReplacer("<q>", quoted, "<p>", plain, "<z>", strings.Trim(plain, `"`)).Replace(keys)
		fmt.Fprintf(&config, "[%s]\n%s", section, keys)
	}
	extra := filepath.Join(tr.dir, ".git", "extra")
	if err := os.WriteFile(extra, []byte(config.String()), 0o644); err != nil {
		tr.t.Fatal(err)
	}
	appendTo(tr.t, filepath.Join(tr.dir, ".git", "config"), config.String()+"[include]\n\tpath = extra\n[includeIf \"gitdir:/\"]\n\tpath = extra\n")
	for _, hook := range hookNames {
		data, err := os.ReadFile(tr.script)
		if err != nil {
			tr.t.Fatal(err)
		}
		path := filepath.Join(tr.dir, ".git", "hooks", hook)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), testpeer.WriteProgram(path, string(data))); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// sprung returns what ran.
func (tr *trap) sprung() string {
	data, err := os.ReadFile(tr.mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tr.t.Fatal(err)
	}
	return string(data)
}

// touch makes git compare contents instead of times.
func (tr *trap) touch() {
	for name := range files(tr.t, tr.dir) {
		path := filepath.Join(tr.dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			later := time.Now().Add(time.Hour)
			if err := os.Chtimes(path, later, later); err != nil {
				tr.t.Fatal(err)
			}
		}
	}
}

// S-11: whatever the project's git directory and attributes name, none of it
// runs, from Open to Land.
func TestNothingOfAHostileProjectRuns(t *testing.T) {
	t.Parallel()
	tr := setTrap(t, project)
	tr.touch()
	r := open(t, tr.user)
	if _, err := r.project.Dirty(context.Background()); err != nil {
		t.Error(err)
	}
	r.agent(map[string]string{"README.md": "agent\n", "src/added": "a\r\n"})
	r.agentRemoves("old/a")
	tree, _ := r.snapshot()
	if _, _, err := r.project.Diff(context.Background(), repo.Tree(r.project.Base), tree); err != nil {
		t.Error(err)
	}
	// Pass 2 onto a target that moved, so that a merge driver would be asked.
	side := commitQuietly(t, tr.user, map[string]string{"README.md": "agent\n", "src/theirs": "t\n"})
	m := r.merge(tree, side)
	tr.touch()
	landed, err := r.land(m.Commit, side)
	if err != nil || !landed.Files || len(landed.Left) > 0 {
		t.Fatalf("%+v, %v", landed, err)
	}
	have := files(t, tr.dir)
	if have["src/added"] != "a\r\n" || have["README.md"] != "agent\n" || have["src/theirs"] != "t\n" {
		t.Errorf("have %q", have)
	}
	r.agent(map[string]string{"src/more": "again\n", "old/b": "again\n"})
	tr.write(map[string]string{"old/b": "dirty\n"})
	tree, _ = r.snapshot()
	target := repo.Commit(quietly(t, tr.user, "rev-parse", "HEAD"))
	if _, err := r.land(r.merge(tree, target).Commit, target); err == nil {
		t.Error("landed on a dirty work tree")
	}
	if ran := tr.sprung(); ran != "" {
		t.Fatalf("these ran:\n%s", ran)
	}
	// The trap works: ordinary git springs it.
	_, _ = tr.try("diff", "HEAD")
	if tr.sprung() == "" {
		t.Error("the trap is not set")
	}
}

// quietly runs git with the trap disarmed.
func quietly(t testing.TB, u *user, args ...string) string {
	t.Helper()
	config := filepath.Join(u.dir, ".git", "config")
	armed, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(u.dir, ".git", "hooks")
	if err := errors.Join(os.Rename(hooks, hooks+".off"), os.WriteFile(config, []byte("[core]\nrepositoryformatversion = 0\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(os.Rename(hooks+".off", hooks), os.WriteFile(config, armed, 0o644)); err != nil {
			t.Fatal(err)
		}
	}()
	return u.git(args...)
}

// commitQuietly commits files on top of main with git's plumbing.
func commitQuietly(t testing.TB, u *user, changed map[string]string) repo.Commit {
	t.Helper()
	u.write(changed)
	for name := range changed {
		id := quietly(t, u, "hash-object", "-w", "--no-filters", name)
		quietly(t, u, "update-index", "--add", "--cacheinfo", "100644,"+id+","+name)
	}
	tree := quietly(t, u, "write-tree")
	commit := quietly(t, u, "commit-tree", tree, "-p", "HEAD", "-m", "meanwhile")
	quietly(t, u, "update-ref", "HEAD", commit)
	// The index must know these files as they are, raw.
	quietly(t, u, "-c", "core.attributesFile=/dev/null", "read-tree", "HEAD")
	return repo.Commit(commit)
}

// An object that is missing must not be fetched by the promisor's program.
func TestAMissingObjectIsNotFetched(t *testing.T) {
	t.Parallel()
	tr := setTrap(t, project)
	id := quietly(t, tr.user, "rev-parse", "HEAD:src/main.go")
	if err := os.Remove(filepath.Join(tr.dir, ".git/objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(tr.dir, ".git/config"), "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n")
	p, err := repo.Open(t.Context(), tr.dir, repo.Options{StateDir: t.TempDir()})
	if err == nil {
		if _, err = p.Clone(t.Context(), filepath.Join(t.TempDir(), "c")); err == nil {
			t.Error("cloned without an object")
		}
	}
	if ran := tr.sprung(); ran != "" {
		t.Fatalf("these ran:\n%s", ran)
	}
}

// S-11: what the agent does to the clone's git directory is never read.
func TestTheAgentsGitDirectoryIsNeverRead(t *testing.T) {
	t.Parallel()
	tr := setTrap(t, project)
	r, trees := tr.session(""), map[repo.Tree][]string{}
	for name, attack := range map[string]func(t *testing.T, git string, tr *trap){
		"config and hooks": func(t *testing.T, git string, tr *trap) {
			copyFile(t, filepath.Join(tr.dir, ".git/config"), filepath.Join(git, "config"))
			if err := os.CopyFS(filepath.Join(git, "hooks"), os.DirFS(filepath.Join(tr.dir, ".git/hooks"))); err != nil {
				t.Fatal(err)
			}
		},
		"commondir": func(t *testing.T, git string, tr *trap) {
			writeFiles(t, git, map[string]string{"commondir": tr.dir + "/.git"})
		},
		"alternates": func(t *testing.T, git string, _ *trap) {
			writeFiles(t, git, map[string]string{"objects/info/alternates": "/etc\n"})
		},
		"a pointer":      func(t *testing.T, git string, tr *trap) { replace(t, git, "gitdir: "+tr.dir+"/.git\n") },
		"a link":         func(t *testing.T, git string, tr *trap) { replace(t, git, "-> "+tr.dir+"/.git") },
		"nothing at all": func(t *testing.T, git string, _ *trap) { remove(t, git) },
		"another index":  func(t *testing.T, git string, _ *trap) { writeFiles(t, git, map[string]string{"index": "DIRC junk"}) },
		"another HEAD": func(t *testing.T, git string, _ *trap) {
			writeFiles(t, git, map[string]string{"HEAD": "ref: ../../x\n"})
		},
		"a pipe for HEAD": func(t *testing.T, git string, _ *trap) { remove(t, git+"/HEAD"); mkfifo(t, git+"/HEAD") },
		"exclude and attr": func(t *testing.T, git string, _ *trap) {
			writeFiles(t, git, map[string]string{"info/exclude": "*\n", "info/attributes": "* filter=evil\n"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := r.inClone(t)
			r.agent(map[string]string{"src/added": "a\n", ".gitattributes": "* filter=evil\n"})
			attack(t, filepath.Join(r.clone.Dir, ".git"), tr)
			tree, changes := r.snapshot()
			if len(changes.Files) != 2 || len(changes.Skipped) != 0 {
				t.Errorf("changes %+v", changes)
			}
			trees[tree] = append(trees[tree], name)
			if ran := tr.sprung(); ran != "" {
				t.Fatalf("these ran:\n%s", ran)
			}
		})
	}
	if len(trees) != 1 {
		t.Fatalf("the same files are these trees: %v", trees)
	}
	for tree := range trees { // no landing is told of a clone
		if _, err := r.land(r.merge(tree, r.project.Base).Commit, r.project.Base); err != nil {
			t.Error(err)
		}
	}
	if ran := tr.sprung(); ran != "" {
		t.Fatalf("these ran:\n%s", ran)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func replace(t testing.TB, path, text string) {
	t.Helper()
	writeFiles(t, filepath.Dir(path), map[string]string{filepath.Base(path): text})
}

func mkfifo(t testing.TB, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A prepared project must not lead the landing's writing elsewhere.
func TestLinksInTheGitDirectoryLeadNowhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"objects", "objects/pack", "refs", "refs/heads", "refs/heads/main", "logs", "logs/HEAD", "logs/refs", "packed-refs", "index",
	} {
		t.Run(name, func(t *testing.T) {
			r, m := worked(t, project, map[string]string{"src/added": "a\n"})
			u := r.user
			u.git("pack-refs")
			u.git("branch", "-f", "main2") // a loose ref, so that refs/heads is there
			outside := filepath.Join(t.TempDir(), "outside")
			inside := filepath.Join(u.dir, ".git", name)
			if err := os.Rename(inside, outside); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			} else if err != nil {
				writeFiles(t, filepath.Dir(outside), map[string]string{"outside": "untouched"})
			}
			if err := os.Symlink(outside, inside); err != nil {
				t.Fatal(err)
			}
			before := tree2(t, outside)
			if _, err := r.land(m.Commit, r.project.Base); !errors.Is(err, repo.ErrUnsafe) {
				t.Errorf("have %v, want ErrUnsafe", err)
			}
			if after := tree2(t, outside); after != before {
				t.Errorf("written outside: %s", after)
			}
		})
	}
}

// S-11: a git directory could show the history of any other repository of the person, which an agent would then
// read. It may come from an agent in a folder that had none, or from the packer of an archive.
func TestHistoryOfElsewhereIsNotRead(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(victim, objects string) error{
		"a list of alternates": func(victim, objects string) error {
			return os.WriteFile(filepath.Join(objects, "info/alternates"), []byte(victim+"\n"), 0o600)
		},
		"links to what is there": func(victim, objects string) error {
			entries, err := os.ReadDir(victim)
			for _, e := range entries {
				err = errors.Join(err, os.RemoveAll(filepath.Join(objects, e.Name())), os.Symlink(filepath.Join(victim, e.Name()), filepath.Join(objects, e.Name())))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim, u := withFiles(t, project), withFiles(t, map[string]string{"own": "x"})
			if err := lead(filepath.Join(victim.dir, ".git/objects"), filepath.Join(u.dir, ".git/objects")); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, u.dir, map[string]string{".git/refs/heads/main": victim.git("rev-parse", "HEAD")})
			state := filepath.Join(t.TempDir(), "state")
			if _, err := repo.Open(t.Context(), u.dir, repo.Options{StateDir: state}); !errors.Is(err, borrowed.ErrBorrowed) {
				t.Errorf("have %v, want ErrBorrowed", err)
			}
			if _, err := os.Lstat(state); err == nil {
				t.Error("something was made of it")
			}
		})
	}
}

// tree2 is a digest of a file or directory, names and sizes.
func tree2(t testing.TB, path string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %d %s\n", name, info.Size(), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A .git that claims another repository is refused before anything is read.
func TestAGitPointerThatIsNotKnownThereIsRefused(t *testing.T) {
	t.Parallel()
	victim := withFiles(t, project)
	victim.git("worktree", "add", "-q", "-b", "w", filepath.Join(t.TempDir(), "w"))
	for name, text := range map[string]map[string]string{
		"a pointer to it":             {".git": "gitdir: " + victim.dir + "/.git\n"},
		"a pointer to its worktree":   {".git": "gitdir: " + victim.dir + "/.git/worktrees/w\n"},
		"a link to it":                {".git": "-> " + victim.dir + "/.git"},
		"a common directory":          {".git/HEAD": "ref: refs/heads/main\n", ".git/commondir": victim.dir + "/.git\n", ".git/gitdir": "SELF/.git\n"},
		"a pointer to nothing":        {".git": "gitdir: /nonexistent\n"},
		"a pointer that is no text":   {".git": "\x00\x01"},
		"a pointer that never stops":  {".git": "gitdir: " + strings.Repeat("x", 1<<20)},
		"a common directory's parent": {".git/HEAD": "ref: refs/heads/main\n", ".git/commondir": "..\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "attacker")
			for file, content := range text {
				writeFiles(t, dir, map[string]string{file: strings.ReplaceAll(content, "SELF", dir)})
			}
			if _, err := repo.Open(t.Context(), dir, repo.Options{StateDir: t.TempDir()}); err == nil {
				t.Error("opened")
			}
		})
	}
}

// git trusts its object store: a prepared one must not pass one file for another.
func TestAnObjectThatIsNotWhatItsIDSaysIsRefused(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	at := func(id string) string { return filepath.Join(u.dir, ".git/objects", id[:2], id[2:]) }
	good, evil := u.git("rev-parse", "HEAD:src/main.go"), u.git("rev-parse", "HEAD:old/a")
	remove(t, at(good))
	copyFile(t, at(evil), at(good))
	p, err := repo.Open(t.Context(), u.dir, repo.Options{StateDir: t.TempDir()})
	if err == nil {
		_, err = p.Clone(t.Context(), filepath.Join(t.TempDir(), "c"))
	}
	if err == nil {
		t.Error("cloned a file that is not the one of its id")
	}
}

func TestAProjectThatMakesGitWaitIsGivenUp(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	mkfifo(t, filepath.Join(u.dir, ".git", "pipe"))
	appendTo(t, filepath.Join(u.dir, ".git/config"), "[include]\n\tpath = pipe\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := repo.Open(ctx, u.dir, repo.Options{StateDir: t.TempDir()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("have %v, want DeadlineExceeded", err)
	}
}

// What the person's shell says to git does not reach it.
func TestTheCallersEnvironmentIsNotHeard(t *testing.T) {
	tr := setTrap(t, project)
	r := open(t, tr.user)
	r.agent(map[string]string{"src/added": "a\n"})
	for name, value := range map[string]string{
		"GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent", "GIT_EXTERNAL_DIFF": tr.script,
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": tr.dir + "/.git/hooks",
		"GIT_TEMPLATE_DIR": tr.dir + "/.git", "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_TRACE": tr.mark, "GIT_PAGER": tr.script,
	} {
		t.Setenv(name, value)
	}
	tree, _ := r.snapshot()
	m := r.merge(tree, r.project.Base)
	if _, err := r.land(m.Commit, r.project.Base); err != nil {
		t.Error(err)
	}
	if ran := tr.sprung(); ran != "" {
		t.Fatalf("these ran:\n%s", ran)
	}
}

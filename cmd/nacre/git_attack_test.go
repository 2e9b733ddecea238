package main_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// U-04: whatever an agent leaves in its git directory, the host runs none of it. It takes no ref but a new branch below
// nacre/, and no object that git would not make.
func TestTheHostObeysNothingOfTheAgentsGitDirectory(t *testing.T) {
	t.Parallel()
	const work = "echo two >>greeting.txt; git commit -q -a -m second; "
	const badTree = `t=$(git rev-parse HEAD^{tree}); `
	for name, c := range map[string]struct{ script, says string }{
		"hooks": {"for h in post-commit reference-transaction pre-commit post-index-change; do mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch CANARY\\ntrue\\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done; " + work, "1 commit on main"},
		"a monitor and filters in its configuration": {"printf '[core]\\nfsmonitor = \"touch CANARY;:\"\\nalternateRefsCommand = \"touch CANARY;:\"\\n[filter \"x\"]\\nclean = \"touch CANARY;cat\"\\n' >>.git/config; echo '* filter=x' >.git/info/attributes; " + work, "1 commit on main"},
		"its configuration of a work tree":           {"git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor = \"touch CANARY;:\"\\n' >.git/config.worktree; " + work, "1 commit on main"},
		"replaced objects":                           {work + "git replace HEAD HEAD~1", "1 commit on main"},
		"grafts":                                     {work + "git rev-parse HEAD >.git/info/grafts", ""},
		"another common directory":                   {work + "mkdir /tmp/own; echo /tmp/own >.git/commondir", "were not taken"},
		"objects of the host":                        {work + "echo /root >>.git/objects/info/alternates; echo WORK/p/.git/objects >>.git/objects/info/alternates", "1 commit on main"},
		"an odd name":                                {work + `cp .git/refs/heads/main ".git/refs/heads/$(printf 'a\033b')"; cp .git/refs/heads/main '.git/refs/heads/-x'; cp .git/refs/heads/main '.git/refs/heads/$(touch CANARY)'`, "on main"},
		"no such object":                             {"echo 1111111111111111111111111111111111111111 >.git/refs/heads/nothing; " + work, ""},
		"a tag that names nothing":                   {"echo 1111111111111111111111111111111111111111 >.git/refs/tags/nothing; " + work, ""},
		"an object that is another":                  {work + `o=$(git rev-parse HEAD^{tree} | sed 's|^..|&/|'); b=$(git rev-parse HEAD:greeting.txt | sed 's|^..|&/|'); chmod u+w .git/objects/$o; cp .git/objects/$b .git/objects/$o`, "were not taken"},
		"a tree with .git in it":                     {badTree + `c=$(printf '040000 tree %s\t.git\n' $t | git mktree); git branch evil $(git commit-tree -m evil $c)`, "were not taken"},
		"a tree with .. in it":                       {badTree + `c=$(printf '040000 tree %s\t..\n' $t | git mktree); git branch evil $(git commit-tree -m evil $c)`, "were not taken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			at, canary := filepath.Join(i.work, "p/.git"), filepath.Join(i.work, "canary")
			refs, before := i.git("for-each-ref"), gitDir(t, at)
			script := strings.NewReplacer("CANARY", canary, "WORK", i.work).Replace(c.script)
			r := i.nacre("exec", "--session", "evil", "--project", "p", "--", "sh", "-c", script+"\ntrue")
			r.want(t, 0, c.says)
			if strings.Contains(r.stderr, "\x1b") {
				t.Errorf("it paints: %q", r.stderr)
			}
			now := gitDir(t, at)
			maps.DeleteFunc(now, func(file, _ string) bool { _, old := before[file]; return !old })
			if !maps.Equal(now, before) {
				t.Error("the repository is not as it was")
			}
			for line := range strings.Lines(i.git("for-each-ref")) {
				if !strings.Contains(refs, strings.TrimSpace(line)) && !strings.Contains(line, "\trefs/heads/nacre/evil") {
					t.Errorf("there is a new ref %q", line)
				}
			}
			i.git("status", "--short")
			i.git("log", "--all", "--oneline")
			i.git("fsck", "--strict", "--no-dangling")
			if _, err := os.Lstat(canary); err == nil {
				t.Error("the host ran it")
			}
		})
	}
}

// U-01, U-04: a program that an agent leaves in a folder of PATH is not what nacre starts on the host. Such a folder is that
// of an environment that was activated in the project.
func TestAProgramThatAnAgentLeftInPathIsNotStarted(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	path := os.Getenv("PATH")
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "p/node_modules/.bin")+":"+filepath.Join(i.work, "link/.venv/bin")+":"+path, "NACRE_CLAUDE=", "NACRE_CODEX=")
	check(t, os.Symlink("p", filepath.Join(i.work, "link")))
	canary := filepath.Join(i.work, "canary")
	i.nacre("exec", "--project", "p", "--", "sh", "-c", `mkdir -p node_modules/.bin .venv/bin
for p in git go node npm rustc cargo python3 claude codex bwrap docker podman uname; do
  for d in node_modules/.bin .venv/bin; do printf '#!/bin/sh\necho '$p' >>`+canary+`\nexec /usr/bin/'$p' "$@"\n' >$d/$p; chmod +x $d/$p; done
done`).want(t, 0)
	i.nacre("exec", "--project", "p", "--", "sh", "-c", "echo two >>greeting.txt; git commit -q -a -m second").want(t, 0, "1 commit on main")
	i.nacre("claude", "--project=p").want(t, 125, "claude is not installed")
	check(t, os.Mkdir(filepath.Join(i.work, "q"), 0o755))
	i.gitIn("q", "init", "-q")
	i.gitIn("q", "commit", "-q", "--allow-empty", "-m", "first")
	i.nacre("exec", "--project", "q", "--", "git", "log").want(t, 0, "first") // wherever nacre is called next
	if ran, err := os.ReadFile(canary); err == nil {
		t.Errorf("the host started %s", strings.ReplaceAll(string(ran), "\n", " "))
	}
}

// U-01, U-04: an agent's program is not started either where the folder of PATH became a project of agents while nacre ran.
// That holds for the folder of a link that PATH names, too.
func TestAProgramThatAnAgentLeavesMeanwhileIsNotStarted(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	check(t, os.MkdirAll(filepath.Join(i.work, "q/bin"), 0o755))
	check(t, os.Mkdir(filepath.Join(i.work, "links"), 0o755))
	check(t, os.Symlink("../q/bin/git", filepath.Join(i.work, "links/git")))
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "links")+":"+filepath.Join(i.work, "q/bin")+":"+os.Getenv("PATH"))
	canary := filepath.Join(i.work, "canary")
	r := i.begin("exec", "--project", "p", "--", "sh", "-c", "echo two >>greeting.txt; git commit -q -a -m second; touch done; until test -e go; do sleep 0.1; done")
	eventually(t, "the commit", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/done")); return err == nil })
	i.nacre("exec", "--project", "q", "--", "sh", "-c", `printf '#!/bin/sh\ntouch `+canary+`\nexec /usr/bin/git "$@"\n' >bin/git; chmod +x bin/git`).want(t, 0)
	i.write("p/go", "")
	finish(t, r).want(t, 0, "1 commit on main, kept as nacre/")
	if _, err := os.Lstat(canary); err == nil {
		t.Error("the host started it")
	}
}

// U-01, U-04: nor does the web page start it, which tries the machine's git for its own page.
func TestTheWebPageStartsNoProgramThatAnAgentLeft(t *testing.T) {
	t.Parallel()
	i := install(t)
	check(t, os.MkdirAll(filepath.Join(i.work, "q/bin"), 0o755))
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "q/bin")+":"+os.Getenv("PATH"))
	send, _ := i.web()
	canary := filepath.Join(i.work, "canary")
	i.nacre("exec", "--project", "q", "--", "sh", "-c", `printf '#!/bin/sh\ntouch `+canary+`\nexec /usr/bin/git "$@"\n' >bin/git; chmod +x bin/git`).want(t, 0)
	eventually(t, "the page about this machine", func() bool { return strings.Contains(send("health", nil), "git version") })
	if _, err := os.Lstat(canary); err == nil {
		t.Error("the page started it")
	}
}

// U-01: an agent that people start, such as claude, is asked for its version on the host. One that a link or a script leads to
// is not, where it lies in a folder that was an agent's project.
func TestAnAgentThatAnAgentLeftIsNotStarted(t *testing.T) {
	t.Parallel()
	i := install(t)
	check(t, os.MkdirAll(filepath.Join(i.work, "q"), 0o755))
	i.nacre("exec", "--project", "q", "--", "cp", "/bin/echo", "claude").want(t, 0)
	at := filepath.Join(i.work, "q/claude")
	check(t, os.MkdirAll(filepath.Join(i.work, "links"), 0o755))
	check(t, os.Symlink(at, filepath.Join(i.work, "links/claude")))
	check(t, os.MkdirAll(filepath.Join(i.work, "p"), 0o755))
	i.env = append(i.env, "NACRE_CLAUDE=", "ANTHROPIC_API_KEY=sk-ant-test", "PATH="+filepath.Join(i.work, "links")+":/usr/bin:/bin")
	i.nacre("claude", "--project", "p").want(t, 125, "claude is not installed")
	check(t, os.Remove(filepath.Join(i.work, "links/claude")))
	i.write("links/claude", "#!/bin/sh\nexec "+at+" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(i.work, "links/claude"), 0o755))
	i.nacre("claude", "--project", "p").want(t, 125, "lies in a folder that was an agent's project")
}

// U-01, U-04: what lies in the repository around a project's folder is left out of PATH as well: a run
// lands there.
func TestAProgramAroundAFolderIsNotStarted(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	canary := filepath.Join(i.work, "canary")
	i.write("p/sub/file", "x\n")
	i.nacre("exec", "--project", "p/sub", "--", "true").want(t, 0)
	i.write("p/bin/git", "#!/bin/sh\ntouch "+canary+"\nexec /usr/bin/git \"$@\"\n")
	check(t, os.Chmod(filepath.Join(i.work, "p/bin/git"), 0o755))
	i.git("init", "-q", "-b", "main", "../q")
	i.gitIn("q", "commit", "-q", "--allow-empty", "-m", "first")
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "p/bin")+":"+os.Getenv("PATH"))
	i.nacre("exec", "--project", "q", "--", "git", "log").want(t, 0, "first")
	if _, err := os.Lstat(canary); err == nil {
		t.Error("the host started it")
	}
}

// U-04: a credential in the configuration of a repository is not shown inside, neither where its git can only be read nor for
// its submodules. What else git needs is there.
func TestNoCredentialOfAConfigurationIsShown(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	i.git("init", "-q", "../lib")
	i.gitIn("lib", "commit", "-q", "--allow-empty", "-m", "of lib")
	i.git("submodule", "--quiet", "add", "../lib", "sub")
	i.git("commit", "-q", "-m", "with a submodule")
	for _, dir := range []string{".", "sub"} {
		i.git("-C", dir, "config", "remote.origin.url", "https://ann:not-for-agents@p.example/p.git")
		i.git("-C", dir, "config", "http.https://p.example/.extraheader", "AUTHORIZATION: basic not-for-agents")
		i.git("-C", dir, "config", "merge.ff", "only")
	}
	const look = "grep -r not-for-agents .git /var/lib/nacre; git -C sub log --format=%s; git -C sub config --list; git log -1 --format=%s; git config --list"
	want := []string{"of lib", "with a submodule", "merge.ff=only", "remote.origin.url=https://p.example/p.git"}
	first := i.begin("exec", "--project", "p", "--", "sh", "-c", look+"; touch begun; until test -e go; do sleep 0.1; done")
	eventually(t, "the first", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/begun")); return err == nil })
	second := i.nacre("exec", "--project", "p", "--", "sh", "-c", look)
	i.write("p/go", "")
	for _, r := range []result{second, finish(t, first)} {
		r.want(t, 0, want...)
		if strings.Contains(r.stdout, "not-for-agents") {
			t.Errorf("it shows %s", r.stdout)
		}
	}
	second.want(t, 0, "another session has git in these files")
}

// U-04: what is kept from an agent of git's configuration is not told by a plugin that sees the project either.
func TestNoCredentialOfAConfigurationIsToldByAPlugin(t *testing.T) {
	t.Parallel()
	for _, may := range []string{"read", "write"} {
		i := reaching(t, `"project": "`+may+`",`, "[access.near]\nproject = \""+may+"\"\n")
		i.gitUser()
		i.git("init", "-q", "../lib")
		i.gitIn("lib", "commit", "-q", "--allow-empty", "-m", "of lib")
		i.git("submodule", "--quiet", "add", "../lib", "sub")
		for _, dir := range []string{".", "sub"} {
			i.git("-C", dir, "config", "http.https://p.example/.extraheader", "X-Own: not-for-agents")
			i.git("-C", dir, "config", "remote.origin.url", "https://p.example/p.git")
		}
		r := i.nacre("exec", "--project", "p", "--", "sh", "-c", near("near", "read", "/project/.git/config")+"; "+near("near", "read", "/project/.git/modules/sub/config"))
		r.want(t, 0)
		if strings.Contains(r.stdout, "not-for-agents") || strings.Count(r.stdout, "https://p.example/p.git") != 2 {
			t.Errorf("%s: it tells %s", may, r.stdout)
		}
	}
}

// U-04: of a configuration that a repository includes from elsewhere, such as another repository's, nothing is
// shown inside: an agent may have written what includes it. The user's own includes hold.
func TestAnIncludedConfigurationShowsNothingOfAnotherRepository(t *testing.T) {
	t.Parallel()
	for name, include := range map[string]string{
		"by its path":              `[include] path = WORK/other/.git/config`,
		"relative":                 `[include] path = ../../other/.git/config`,
		"on a condition":           `[includeIf "gitdir:WORK/p/"] path = WORK/other/.git/config`,
		"through a link":           `[include] path = link`,
		"through a link's folder":  `[include] path = folder/config`,
		"through another of its":   `[include] path = second`,
		"through a file of p":      `[include] path = ../third`,
		"for one work tree":        "[extensions] worktreeConfig = true",
		"as a branch's own remote": `[branch "main"] remote = https://ann:not-for-agents@p.example/p.git`,
		"as a helper's remote":     `[remote "other"] url = helper::https://ann:not-for-agents@p.example/p.git`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			i.git("init", "-q", "../other")
			i.gitIn("other", "remote", "add", "origin", "https://ann:secret@other.example/not-for-agents.git")
			i.gitIn("other", "config", "user.name", "not-for-agents")
			i.git("config", "remote.origin.url", "https://p.example/p.git")
			dir := filepath.Join(i.work, "p/.git")
			check(t, os.Symlink("../../other/.git/config", filepath.Join(dir, "link")))
			check(t, os.Symlink("../../other/.git", filepath.Join(dir, "folder")))
			elsewhere := "[include]\n\tpath = " + i.work + "/other/.git/config\n"
			i.write("p/.git/second", elsewhere)
			i.write("p/.git/config.worktree", elsewhere)
			i.write("p/third", elsewhere+"[remote \"t\"]\n\turl = https://not-for-agents.example\n")
			section, setting, _ := strings.Cut(strings.ReplaceAll(include, "WORK", i.work), "] ")
			config := i.read("p/.git/config")
			i.write("p/.git/config", config+section+"]\n\t"+setting+"\n")
			r := i.nacre("exec", "--project", "p", "--", "git", "config", "--list")
			r.want(t, 0, "remote.origin.url=https://p.example/p.git", "user.name=Ann")
			if strings.Contains(r.stdout, "not-for-agents") {
				t.Errorf("it shows %s", r.stdout)
			}
		})
	}
	i := install(t)
	i.gitUser()
	i.project()
	i.git("config", "include.path", "mine")
	i.write("p/.git/mine", "[merge]\n\tff = only\n")
	i.git("config", "--add", "include.path", i.write("home/.gitconfig-work", "[user]\n\temail = ann@work.example\n"))
	i.git("config", "--add", "include.path", "../filters")
	i.write("p/filters", "[filter \"strip\"]\n\tclean = cat\n[merge]\n\tff = false\n")
	i.nacre("exec", "--project", "p", "--", "git", "config", "--list").want(t, 0, "merge.ff=only", "user.email=ann@work.example", "do not run inside", "strip")
}

// U-04: a repository whose parts are links, as an agent could leave one where there was
// none, is not followed: what they lead to is neither shown nor written.
func TestLinksInAGitDirectoryLeadNowhere(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"objects", "info", "logs", "refs", "modules"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.gitUser()
			i.project()
			at, outside := filepath.Join(i.work, "p/.git", part), filepath.Join(i.work, "outside")
			if err := os.Rename(at, outside); err != nil {
				check(t, os.Mkdir(outside, 0o755))
			}
			check(t, os.Symlink(outside, at))
			for _, name := range []string{"exclude", "secret"} {
				check(t, os.WriteFile(filepath.Join(outside, name), []byte("not-for-agents\n"), 0o600))
			}
			before := gitDir(t, outside)
			r := i.nacre("exec", "--project", "p", "--", "sh", "-c", "cat .git/*/exclude .git/*/secret /var/lib/nacre/objects/secret; echo two >>greeting.txt; git commit -q -a -m second; echo done")
			r.want(t, 0, "git can only be read: a part of its git directory is a link", "done")
			if strings.Contains(r.stdout, "not-for-agents") {
				t.Errorf("it reads what the link leads to: %q", r.stdout)
			}
			if now := gitDir(t, outside); !maps.Equal(now, before) {
				t.Error("what the link leads to is not as it was")
			}
		})
	}
}

// U-04: after kill -9 the repository is as it was, and the next command in it takes the
// commits that were left.
func TestTheNextCommandTakesWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.gitUser()
	i.project()
	before := gitDir(t, filepath.Join(i.work, "p/.git"))
	r := i.begin("exec", "--session", "killed", "--project", "p", "--", "sh", "-c", "echo two >>greeting.txt; git commit -q -a -m second; touch done; sleep 300")
	eventually(t, "the commit", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/done")); return err == nil })
	second := i.nacre("exec", "--project", "p", "--", "sh", "-c", "git log --oneline; touch .git/x || echo held")
	second.want(t, 0, "another session has git in these files", "held")
	check(t, r.Process.Kill())
	_ = r.Wait() // it was killed
	if now := gitDir(t, filepath.Join(i.work, "p/.git")); !maps.Equal(now, before) {
		t.Error("the repository is not as it was")
	}
	i.nacre("exec", "--project", "p", "--", "true").want(t, 0, "1 commit on main, kept as nacre/killed")
	i.nothingLeft(t)
}

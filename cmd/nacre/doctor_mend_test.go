package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// agrees answers doctor --fix at a terminal: yes to the questions that have one of the texts, and no to the others.
func (i *installation) agrees(texts ...string) result {
	i.t.Helper()
	screen, wait := i.terminal("doctor", "--no-turns", "--fix")
	for _, text := range texts {
		screen.until(text)
		screen.until("[y/N]")
		screen.typeIn("y\r")
		screen.until("repaired: ")
	}
	return wait()
}

// tool puts a program below the work folder.
func (i *installation) tool(name, script string) {
	i.t.Helper()
	check(i.t, os.Chmod(i.write(name, script), 0o755))
}

// M-60: of two plugins that collide one is set aside where a person chooses it, and the other works then.
// --yes chooses none.
func TestDoctorSetsAPluginAside(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.allowing(`"*"`)
	for _, name := range []string{"aa", "bb"} {
		dir := "home/.local/share/nacre/plugins/" + name
		i.write(dir+"/manifest.json", `{"description": "d", "version": "1.0.0", "handler": ["sh", "h.sh"], "provides": {"tools": [
			{"name": "look_up", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`)
		i.write(dir+"/h.sh", "exit 0\n")
	}
	r := i.nacre("doctor", "--no-turns", "--fix", "--yes")
	r.want(t, 4, "aa: the tool look_up belongs to plugin bb", "set plugin aa aside")
	has(t, r.stderr, "a person has to choose it")
	r = i.agrees("set plugin aa aside")
	hasNo(t, r.stdout, "set plugin bb aside")
	now := i.nacre("doctor", "--no-turns")
	now.want(t, 0, " found: bb,")
	hasNo(t, now.stdout, "look_up belongs to")
	aside, err := filepath.Glob(filepath.Join(i.work, "home/.local/share/nacre/plugins.aside/aa-*/manifest.json"))
	if err != nil || len(aside) != 1 {
		t.Errorf("the plugin is not kept: %v, %v", aside, err)
	}
	i.nacre("plugin", "list").want(t, 0, "bb")
}

// M-60: the brain that config.toml names is installed, where a person chooses it, without what a project says of npm.
func TestDoctorInstallsTheBrain(t *testing.T) {
	t.Parallel()
	i := install(t)
	programs := filepath.Join(i.work, "programs")
	self, err := os.Executable() // which answers as Claude Code where that is its name
	check(t, err)
	i.tool("programs/npm", "#!/bin/sh\n[ \"$*\" = 'install -g @anthropic-ai/claude-code' ] && [ \"$PWD\" = / ] || { echo \"asked $* in $PWD\"; exit 1; }\n"+
		"[ -e '"+programs+"/network' ] || { echo 'no network'; exit 1; }\nln '"+self+"' '"+programs+"/claude' || cp '"+self+"' '"+programs+"/claude'\n")
	i.config("brain = \"claude\"\n")
	i.env = append(i.env, "PATH="+programs+":/usr/bin:/bin", "ANTHROPIC_API_KEY=key-of-the-test")
	has(t, i.nacre("doctor", "--no-turns").stdout, "claude: ", "npm install -g @anthropic-ai/claude-code")
	has(t, i.nacre("doctor", "--no-turns", "--fix", "--yes").stderr, "a person has to choose it at a terminal, without --yes: run npm install")
	screen, wait := i.terminal("doctor", "--no-turns", "--fix")
	screen.until("run npm install -g @anthropic-ai/claude-code (it uses the network)? [y/N]")
	screen.typeIn("y\r")
	screen.until("not repaired: npm install")
	screen.until("no network")
	if r := wait(); r.code != 4 {
		t.Errorf("exit %d", r.code)
	}
	i.write("programs/network", "")
	i.agrees("run npm install")
	has(t, i.nacre("doctor", "--no-turns").stdout, "✓ brain  claude")
}

// M-60: a clock that is behind is set by the system, where a person chooses it.
func TestDoctorSetsTheClock(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--session", "later", "--", "true").want(t, 0)
	file := i.state("sessions", "later", "session.json")
	now := fileText(file)
	later := regexp.MustCompile(`"started": "[^"]*"`).ReplaceAllString(now, `"started": "`+time.Now().Add(3*time.Hour).UTC().Format(time.RFC3339Nano)+`"`)
	check(t, os.WriteFile(file, []byte(later), 0o600))
	i.write("at-its-time", now)
	// what stands for the network's time: the session is no longer ahead of it
	i.tool("programs/timedatectl", "#!/bin/sh\n[ \"$*\" = 'set-ntp true' ] && cp '"+filepath.Join(i.work, "at-its-time")+"' '"+file+"' && rm -f '"+i.state("sessions.index")+"'\n")
	check(t, os.RemoveAll(i.state("sessions.index")))
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "programs")+":/usr/bin:/bin")
	has(t, i.nacre("doctor", "--no-turns").stdout, "this machine's clock is behind")
	i.agrees("run timedatectl set-ntp true")
	has(t, i.nacre("doctor", "--no-turns").stdout, "no session began later than now")
}

// M-60: an audit that was changed is kept as it is, and another one begun, where a person chooses it. That is never
// by --yes, and not while a session writes to it. The new one says what became of the old one.
func TestDoctorSetsABrokenAuditAside(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--session", "one", "--", "true").want(t, 0)
	chain := i.state("audit", "one.1", "000001.jsonl")
	check(t, os.WriteFile(chain, []byte(strings.Replace(fileText(chain), "session.open", "session.opeN", 1)), 0o600))
	forged := fileText(chain)
	r := i.nacre("doctor", "--no-turns", "--fix", "--yes")
	r.want(t, 4, "one.1")
	has(t, r.stderr, "a person has to choose it at a terminal, without --yes: keep the audit that does not hold as audit.aside-")
	i.nacre("audit", "verify").want(t, 1)

	atWork := i.waits()
	screen, wait := i.terminal("doctor", "--no-turns", "--fix")
	screen.until("keep the audit that does not hold")
	screen.until("[y/N]")
	screen.typeIn("y\r")
	screen.until("session work is at work")
	wait()
	i.nacre("sessions", "stop", "work").want(t, 0)
	finish(t, atWork)

	i.agrees("keep the audit that does not hold")
	i.nacre("doctor", "--no-turns").want(t, 0, "links and signed heads verified")
	i.nacre("audit", "verify").want(t, 0)
	i.nacre("audit", "show", "--kind", "audit.aside").want(t, 0, "set aside")
	i.nacre("exec", "-q", "--session", "two", "--", "true").want(t, 0)
	i.nacre("audit", "verify", "two").want(t, 0)
	kept, err := filepath.Glob(i.state("audit.aside-*", "one.1", "000001.jsonl"))
	if err != nil || len(kept) != 1 || fileText(kept[0]) != forged {
		t.Errorf("what was forged is not kept: %q, %v", kept, err)
	}
}

// M-60: where the disk of the state is full, old sessions are removed however little room they take, and what
// they leave lets nacre work.
func TestDoctorMakesRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[retention]\nolder = \"1s\"\n")
	said := i.onSmallDisk(`set -u
mount -t tmpfs -o size=16m none "$1"
"$2" exec -q --session old -- true || exit 1
head -c 4000000 /dev/zero >"$1/nacre/sessions/old/left.bin"
dd if=/dev/zero of="$1/fill" bs=4k 2>/dev/null
sleep 1.1
"$2" doctor --no-turns | grep room
"$2" doctor --no-turns --fix --yes >"$3/said" 2>&1
grep -E 'repaired' "$3/said" || cat "$3/said"
[ ! -e "$1/nacre/sessions/old/left.bin" ] || echo it is there still
"$2" exec -q -- echo works again
"$2" audit verify >/dev/null && echo verified
`)
	has(t, said, "1 old sessions take 3 MiB or more", "repaired: remove 1 old sessions", "works again", "verified")
	hasNo(t, said, "it is there still")
}

package main_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// drawn is what a screen's text holds beside letters: control sequences and blanks.
var drawn = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.|\s`)

// shows reads the screen to a text, of which neither spaces nor how it is drawn count.
func (s *terminal) shows(text string) {
	s.t.Helper()
	want, late := strings.ReplaceAll(text, " ", ""), time.After(patience)
	for {
		if strings.Contains(drawn.ReplaceAllString(s.text.String()[s.read:], ""), want) {
			s.read = s.text.Len()
			return
		}
		select {
		case b, open := <-s.shown:
			if !open {
				s.t.Fatalf("no %q on\n%s", text, s.text.String())
			}
			s.text.WriteByte(b)
			s.more()
		case <-late:
			s.t.Fatalf("no %q on\n%s", text, s.text.String())
		}
	}
}

// more takes what is there already.
func (s *terminal) more() {
	for range len(s.shown) {
		if b, open := <-s.shown; open {
			s.text.WriteByte(b)
		}
	}
}

// enters types a line, and sends it once the program shows it. A program that is still
// drawing its first picture drops a key: it gets another, and after a while the line again.
func (s *terminal) enters(line string, until func() bool) {
	s.t.Helper()
	from, typed, sent := s.text.Len(), time.Time{}, time.Time{}
	eventually(s.t, "what "+line+" leads to", func() bool {
		s.more()
		if until() {
			return true
		}
		switch seen := strings.Contains(drawn.ReplaceAllString(s.text.String()[from:], ""), strings.ReplaceAll(line, " ", "")); {
		case time.Since(typed) > 20*time.Second:
			s.typeIn(line)
			typed, sent = time.Now(), time.Time{}
		case (seen || time.Since(typed) > 5*time.Second) && time.Since(sent) > 3*time.Second:
			s.typeIn("\r")
			sent = time.Now()
		}
		return false
	})
}

// goesOn resizes the terminal, pastes, and interrupts a command.
func (s *terminal) goesOn(server *scriptedmodel.Server, mark string) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 132}); err != nil {
		s.t.Fatal(err)
	}
	s.typeIn("\x1b[200~first line\nsecond line\x1b[201~")
	s.enters(" and on", func() bool { return asked(server, `first line\nsecond line and on`) })
	s.shows("The paste is read.")
	s.enters("go on", func() bool { return len(processes(s.t, "sleep 300"+mark)) > 0 })
	s.typeIn("\x03") // ends the command with the turn
	s.shows("nterrupted")
}

// leaves presses Ctrl-C twice, as who wants to go does, and again where that was lost.
func (s *terminal) leaves() {
	s.t.Helper()
	pressed := time.Time{}
	eventually(s.t, "the end of the program", func() bool {
		s.more()
		if strings.Contains(s.text.String()[s.read:], "\x1b[?2004l") {
			return true
		}
		if time.Since(pressed) > 4*time.Second {
			pressed = time.Now()
			_, err := s.master.WriteString("\x03\x03")
			return err != nil
		}
		return false
	})
}

// U-01: each of the real programs does a whole turn in its own terminal interface. There is an edit
// and a denied connection, a paste, a new size, an interrupt and the program's own exit code.
func TestOtherPeoplesAgentsWorkInTheirOwnTerminal(t *testing.T) {
	for name, c := range map[string]struct{ peer, dialect, tool, word, ready string }{
		"claude": {"NACRE_CLAUDE", "anthropic", "Bash", "command", "bypass permissions on"},
		"codex":  {"NACRE_CODEX", "openai-responses", "exec_command", "cmd", "Ask Codex to do anything"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(c.peer) == "" {
				testpeer.Missing(t, name, name+": name it in "+c.peer)
			}
			mark := marker()
			run := func(command string) []scriptedmodel.Tool {
				return []scriptedmodel.Tool{{Name: c.tool, Input: []byte(fmt.Sprintf("{%q:%q}", c.word, command))}}
			}
			server, url := upstreamOf(t, scriptedmodel.Script{
				Turns: []scriptedmodel.Turn{
					{Text: "I will write.", Tools: run("echo 'hello world' > greeting.txt; ipc get_session_info '{}'; curl -sS -m 20 https://refused.example/")},
					{Text: "The greeting is written."},
					{Text: "The paste is read."},
					{Text: "I will wait.", Tools: run("sh -c 'sleep 300" + mark + "'")},
					{Text: "Never said."},
				},
				Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
			})
			i := install(t)
			i.project()
			i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test", c.peer+"="+os.Getenv(c.peer))
			i.write("home/.config/nacre/config.toml", fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [%q]\n", url, c.dialect))
			screen, wait := i.terminal(name, "--project", "p", "--session", "work")
			screen.shows("session work")
			screen.shows(c.ready)
			hasNo(t, screen.text.String(), "press Ctrl-]") // nothing is asked before anybody has typed (U-14)
			screen.enters("please greet", func() bool { return i.read("p/greeting.txt") == "hello world\n" })
			screen.shows("press Ctrl-]") // the question about the host, over what the program draws (U-10)
			screen.refuses()
			screen.shows("The greeting is written.")
			if name == "claude" { // Codex drops and regroups keys under load: what it is driven to is the turn and its end
				screen.goesOn(server, mark)
			}
			screen.leaves()
			wait().want(t, 0)
			gone(t, mark)
			chain := i.nacre("audit", "show", "work", "--json")
			chain.want(t, 0, `"kind":"model.end"`, "core.get_session_info", "refused.example")
			hasNo(t, chain.stdout, "raw.githubusercontent.com") // what Codex fetches by itself asks nobody (U-14)
			for _, request := range server.Requests() {
				if strings.Contains(string(request.Body), "local-key-of-the-test") {
					t.Error("the agent knows the key")
				}
			}
		})
	}
}

// asked tells whether the model was sent a text.
func asked(server *scriptedmodel.Server, text string) bool {
	for _, request := range server.Requests() {
		if strings.Contains(string(request.Body), text) {
			return true
		}
	}
	return false
}

// U-01: with --prompts Claude Code asks the person before it acts, and acts once it is told
// to. Codex takes the setting that makes it ask.
func TestOtherPeoplesAgentsAskFirstWithPrompts(t *testing.T) {
	t.Parallel()
	opened := func(t *testing.T, peer, dialect, tool, word string) (*installation, *scriptedmodel.Server) {
		if os.Getenv(peer) == "" {
			testpeer.Missing(t, peer, peer+" names it")
		}
		run := []scriptedmodel.Tool{{Name: tool, Input: []byte(fmt.Sprintf("{%q:%q}", word, "rm -f greeting.txt && mkdir asked-first"))}}
		server, url := upstreamOf(t, scriptedmodel.Script{
			Turns:  []scriptedmodel.Turn{{Text: "I will write.", Tools: run}, {Text: "The greeting is gone."}},
			Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
		})
		i := install(t)
		i.project()
		i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test", peer+"="+os.Getenv(peer))
		i.write("home/.config/nacre/config.toml", fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [%q]\n", url, dialect))
		return i, server
	}
	t.Run("claude", func(t *testing.T) {
		t.Parallel()
		i, server := opened(t, "NACRE_CLAUDE", "anthropic", "Bash", "command")
		screen, wait := i.terminal("claude", "--project", "p", "--prompts")
		screen.enters("please remove it", func() bool { return asked(server, "please remove it") })
		screen.shows("Do you want to proceed?")
		if isThere(i.work + "/p/asked-first") {
			t.Error("the program acted before it was told to")
		}
		pressed := time.Now()
		eventually(t, "what the program was told to do", func() bool {
			screen.more()
			if time.Since(pressed) > 2*time.Second {
				screen.typeIn("\r")
				pressed = time.Now()
			}
			return isThere(i.work + "/p/asked-first")
		})
		screen.shows("The greeting is gone.")
		screen.leaves()
		wait().want(t, 0)
	})
	t.Run("codex", func(t *testing.T) {
		t.Parallel()
		i, _ := opened(t, "NACRE_CODEX", "openai-responses", "exec_command", "cmd")
		have := i.nacre("codex", "--project", "p", "--prompts", "exec", "please remove it")
		if have.want(t, 0, "The greeting is gone."); strings.Contains(have.stdout+have.stderr, "no longer supported") {
			t.Errorf("a setting is refused: %s%s", have.stdout, have.stderr)
		}
	})
}

// U-01: no settings in a project, such as those that an earlier agent left, lead Claude Code past the gateway or
// start a program of their own. With --prompts none of them let it act unasked.
func TestAProjectsSettingsDoNotActInClaudeCode(t *testing.T) {
	t.Parallel()
	if os.Getenv("NACRE_CLAUDE") == "" {
		testpeer.Missing(t, "claude", "NACRE_CLAUDE names it")
	}
	act := []scriptedmodel.Tool{{Name: "Bash", Input: []byte(`{"command":"mkdir acted"}`)}}
	_, url := upstreamOf(t, scriptedmodel.Script{
		Turns:  []scriptedmodel.Turn{{Text: "I will act.", Tools: act}, {Text: "It is over."}},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
	})
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test", "NACRE_CLAUDE="+os.Getenv("NACRE_CLAUDE"))
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\n", url))
	check(t, os.Chmod(i.write("p/hit.sh", "#!/bin/sh\necho \"$1\" >>/workspace/ran\n"), 0o755))
	const allowed = `{"permissions":{"allow":["Bash","Bash(*)"],"defaultMode":"bypassPermissions"}}`
	for name, c := range map[string]struct {
		file, settings string
		flags          []string
		acts           bool
	}{
		"a helper for the key": {"settings.json", `{"apiKeyHelper":"/workspace/hit.sh key"}`, nil, true},
		"a hook":               {"settings.json", `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"/workspace/hit.sh hook"}]}]}}`, nil, true},
		"another service": {"settings.local.json", `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1","AWS_REGION":"us-east-1"},"awsAuthRefresh":"/workspace/hit.sh aws",` +
			`"awsCredentialExport":"/workspace/hit.sh aws"}`, nil, true},
		"a third service":                 {"settings.json", `{"env":{"CLAUDE_CODE_USE_VERTEX":"1","ANTHROPIC_VERTEX_PROJECT_ID":"x"},"gcpAuthRefresh":"/workspace/hit.sh gcp"}`, nil, true},
		"a rule that allows":              {"settings.json", allowed, []string{"--prompts"}, false},
		"a rule that allows, of one user": {"settings.local.json", allowed, []string{"--prompts"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			settings := i.write("p/.claude/"+c.file, c.settings)
			have := i.nacre(append(append([]string{"claude", "--project", "p"}, c.flags...), "-p", "please act")...)
			have.want(t, 0, "It is over.")
			if acted := os.Remove(i.work+"/p/acted") == nil; acted != c.acts {
				t.Errorf("it acted: %t", acted)
			}
			if isThere(i.work + "/p/ran") {
				t.Errorf("a program of the project ran: %s", i.read("p/ran"))
			}
			check(t, os.Remove(settings))
		})
	}
}

// U-02: each of the real programs does a whole turn on a subscription login, whose token was revoked and is
// refreshed once. The vendor's side sees the headers that it wants, and the program sees no token of the login.
func TestOtherPeoplesAgentsWorkOnALogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer, tool, word string
		args             []string
	}{
		"claude": {"NACRE_CLAUDE", "Bash", "command", []string{"-p"}},
		"codex":  {"NACRE_CODEX", "exec_command", "cmd", []string{"exec", "--skip-git-repo-check"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(c.peer) == "" {
				testpeer.Missing(t, name, c.peer+" names it")
			}
			i := install(t)
			i.project()
			i.env = append(i.env, c.peer+"="+os.Getenv(c.peer))
			const look = `echo hello > greeting.txt; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\0' '\n' | command grep -c -e 'access-secre[t]' -e 'refresh-secre[t]' > found.txt`
			server, login := onLogin(t, i, scriptedmodel.Turn{
				Text: "I will write.", Tools: []scriptedmodel.Tool{{Name: c.tool, Input: []byte(fmt.Sprintf("{%q:%q}", c.word, look))}},
			}, scriptedmodel.Turn{Text: "The greeting is written."})
			i.write("home/.config/nacre/config.toml", login+"login = \"subscription\"\n")
			i.nacre(append(append([]string{name, "--project", "p"}, c.args...), "please greet")...).want(t, 0, "The greeting is written.")
			if i.read("p/greeting.txt") != "hello\n" || i.read("p/found.txt") != "0\n" || server.Refreshes() != 1 {
				t.Errorf("%d refreshes, and %q, %q", server.Refreshes(), i.read("p/greeting.txt"), i.read("p/found.txt"))
			}
		})
	}
}

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// lastly ends a script: once it is told, the agent goes on, and goes where it may not where it is told that, too.
const lastly = "& until test -e go; do sleep 0.02; done; ! test -e astray || curl -s http://other.example/; wait\n"

// contains has a session contained that goes where it may not.
const contains = "[tripwires]\ndenied_egress = \"contain\"\n"

// endless is an answer that begins, and ends when who asked is gone.
func endless(open *atomic.Int32, w http.ResponseWriter, r *http.Request, beginning string) {
	open.Add(1)
	defer open.Add(-1)
	_, _ = io.WriteString(w, beginning)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// M-35: what carries a credential is closed when its session is stopped, loses its grants or is contained. So it is when
// an operator takes the credential out of config.toml, says less of it there or leaves a file that cannot be read.
// Neither its host nor its client wants it to end. What was minted is taken back with the session.
func TestWhatCarriesACredentialIsClosed(t *testing.T) {
	t.Parallel()
	everything := map[string]func(i *installation){
		"stopped":   func(i *installation) { i.nacre("sessions", "stop", "work").want(i.t, 0) },
		"revoked":   func(i *installation) { i.nacre("grants", "revoke", "main/work").want(i.t, 0, "revoked") },
		"contained": func(i *installation) { i.write("p/astray", "") },
		"taken out of config.toml": func(i *installation) {
			before, _, _ := strings.Cut(i.configured(), "[[credential]]")
			i.config(before)
		},
		"narrowed in config.toml":         edits(`paths = ["/v1/"]`, `paths = ["/v1/x/"]`),
		"given an end in config.toml":     edits(`groups = ["main"]`, "groups = [\"main\"]\nexpires = 2026-01-01T00:00:00Z"),
		"a config.toml that has an error": edits(`[egress]`, "[egress\n"),
	}
	for name, c := range map[string]struct {
		opened func(t *testing.T) (i *installation, open *atomic.Int32, over func() bool, script string)
		ends   []string
	}{
		"a download": {mintedDownload, slices.Collect(maps.Keys(everything))},
		"a clone":    {stalledClone, []string{"stopped", "revoked", "contained", "given an end in config.toml"}},
		"an SSH":     {waitingSSH, []string{"stopped", "revoked", "contained", "given an end in config.toml"}},
	} {
		for _, end := range c.ends {
			t.Run(name+" is "+end, func(t *testing.T) {
				t.Parallel()
				i, open, over, script := c.opened(t)
				i.config(i.configured() + contains)
				i.write("p/x", "")
				r := i.begin("exec", "--session", "work", "--project", "p", "--", "sh", "-c", script+lastly)
				eventually(t, "a stream", func() bool { return open.Load() == 1 })
				everything[end](i)
				i.write("p/go", "")
				eventually(t, "the end of the stream", func() bool { return open.Load() == 0 })
				finish(t, r)
				if !over() {
					t.Error("what was minted is good after the session")
				}
			})
		}
	}
}

// mintedDownload is a download with a credential of a provider's.
func mintedDownload(t *testing.T) (*installation, *atomic.Int32, func() bool, string) {
	testpeer.Need(t, "curl")
	i, v := minting(t)
	return i, &v.streams, func() bool { return v.made == 1 && len(v.out()) == 0 && i.handles() == "0" }, "curl -sN https://example.com/v1/stream"
}

// stalledClone is a clone whose host has begun to send the pack.
func stalledClone(t *testing.T) (*installation, *atomic.Int32, func() bool, string) {
	testpeer.Need(t, "git")
	_, git := bare(t)
	open := &atomic.Int32{}
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, password, _ := r.BasicAuth()
		switch path, isGit := strings.CutPrefix(r.URL.Path, "/acme/widget.git/"); {
		case err != nil || !isGit || password != keptValue:
			w.WriteHeader(http.StatusUnauthorized)
		case bytes.Contains(body, []byte("command=fetch")):
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			endless(open, w, r, "000dpackfile\n")
		default:
			r.URL.Path, r.Body = "/widget.git/"+path, io.NopCloser(bytes.NewReader(body))
			git.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(host.Close)
	i := install(t)
	i.config(fmt.Sprintf("[egress]\nallow = [\"forge.example.com:443\"]\npin = { \"forge.example.com:443\" = %q }\n[[credential]]\nname = \"forge\"\nhost = \"forge.example.com:443\"\nscheme = \"basic\"\nuser = \"x\"\nrepositories = [\"/acme/widget.git\"]\ngroups = [\"main\"]\nstanding_secret = true\nvalue_file = %q\nca_file = %q\n",
		host.Listener.Addr(), i.write("value", keptValue), i.certificateOf(host)))
	return i, open, func() bool { return true }, "GIT_TERMINAL_PROMPT=0 git clone -q https://forge.example.com/acme/widget.git /tmp/widget"
}

// waitingSSH is a command on a host of SSH that does not end.
func waitingSSH(t *testing.T) (*installation, *atomic.Int32, func() bool, string) {
	i, h, _ := sshForge(t)
	i.config(strings.Replace(i.configured(), "[[credential]]", "[[credential]]\nconfirm = \"never\"", 1))
	return i, &h.streams, func() bool { return true }, "ssh git.example wait"
}

// M-30: what a run holds is given back where it ends, is stopped, and stops at a checkpoint, from which it goes on
// with a credential of its own.
func TestWhatARunHoldsIsGivenBack(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	for name, end := range map[string]func(i *installation, r *running){
		"at its end":      func(i *installation, _ *running) { i.tell("work", "go") },
		"where stopped":   func(i *installation, _ *running) { i.nacre("sessions", "stop", "work").want(i.t, 0) },
		"at a checkpoint": func(_ *installation, r *running) { _ = r.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, v := minting(t)
			i.project()
			rec := i.recording("mkdir -p said/work; curl -sf https://example.com/v1/x >a.txt; " + untilTold("work", "go") + "; rm -r said")
			r := i.begin("run", "ask", "--project", "p", "--recording", rec, "--session", "work", "--check", "grep -q works a.txt")
			eventually(t, "an answer", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return len(v.seen) == 1 })
			eventually(t, "the agent waits", func() bool { return isThere(filepath.Join(i.workspace("work"), "said/work")) })
			end(i, r)
			finish(t, r)
			if out := v.out(); len(out) > 0 || i.handles() != "0" {
				t.Errorf("%v are good, and %s handles are kept", out, i.handles())
			}
			if name != "at a checkpoint" {
				return
			}
			r = i.begin("run", "--session", "work")
			eventually(t, "another answer", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return len(v.seen) == 2 && v.seen[0] != v.seen[1] })
			eventually(t, "the agent waits", func() bool { return isThere(filepath.Join(i.workspace("work"), "said/work")) })
			i.tell("work", "go")
			finish(t, r).want(t, 0, "merged")
			if out := v.out(); len(out) > 0 || v.made != 2 {
				t.Errorf("of %d, %v are good", v.made, out)
			}
		})
	}
}

// M-34, M-35: what was taken back while a person was asked for it is neither minted nor logs in, whatever the person
// answers.
func TestAnAnswerGivesNothingThatWasTakenBack(t *testing.T) {
	t.Parallel()
	for name, takeBack := range map[string]func(i *installation){
		"revoked":                     func(i *installation) { i.nacre("grants", "revoke", "main/work").want(i.t, 0) },
		"given an end in config.toml": edits(`groups = ["main"]`, "groups = [\"main\"]\nexpires = 2026-01-01T00:00:00Z"),
	} {
		t.Run("a login is "+name, func(t *testing.T) {
			t.Parallel()
			i, h, _ := sshForge(t)
			r := i.begin("exec", "--session", "work", "--", "sh", "-c", "ssh git.example true")
			id := i.question().ID
			takeBack(i)
			i.nacre("approvals", "approve", id)
			if r := finish(t, r); r.code == 0 || len(h.log()) > 0 || strings.Contains(i.records("work"), `"outcome":"signed"`) {
				t.Errorf("exit %d, and the host saw %v\n%s", r.code, h.log(), r.stderr)
			}
		})
		t.Run("what is minted is "+name, func(t *testing.T) {
			t.Parallel()
			testpeer.Need(t, "curl")
			i, v := minting(t)
			i.config(i.configured() + "budget = { hours = 1, renewals = 0 }\n[approval]\nhold = \"1m\"\n")
			r := i.begin("exec", "--session", "work", "--", "curl", "-sf", "https://example.com/v1/x")
			id := i.question().ID
			takeBack(i)
			i.nacre("approvals", "approve", id)
			if r := finish(t, r); r.code == 0 || len(v.seen) > 0 || len(v.out()) > 0 {
				t.Errorf("exit %d, %d were minted, and the host was shown %q", r.code, v.made, v.seen)
			}
		})
	}
}

// M-35, M-58: a call of the model ends with its session, with what that was granted, and where it is contained. What was
// minted for the session is taken back.
func TestACallOfTheModelEndsWithItsSession(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	testpeer.Need(t, "setsid")
	for name, end := range map[string]func(i *installation){
		"stopped":   func(i *installation) { i.nacre("sessions", "stop", "work").want(i.t, 0) },
		"revoked":   func(i *installation) { i.nacre("grants", "revoke", "main/work").want(i.t, 0) },
		"contained": func(i *installation) { i.tell("work", "astray") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var open, calls atomic.Int32
			first := scriptedmodel.New(scriptedmodel.Script{Turns: []scriptedmodel.Turn{
				works(t, "mkdir -p said/work; setsid sh -c '"+untilTold("work", "astray")+"; curl -s http://other.example/' >/dev/null 2>&1 </dev/null & curl -sf https://example.com/v1/x"),
			}})
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					first.ServeHTTP(w, r)
					return
				}
				_, _ = io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				endless(&open, w, r, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
			}))
			t.Cleanup(model.Close)
			of, v := minting(t)
			i, _ := thinks(t, contains+of.configured(), scriptedmodel.Script{})
			i.config(regexp.MustCompile(`url = .*\nkey_env`).ReplaceAllString(i.configured(), fmt.Sprintf("url = %q\nkey_env", model.URL)))
			i.project()
			r := i.begin("run", "Think", "--session", "work", "--project", "p", "--check", "true")
			eventually(t, "a call of the model", func() bool { return open.Load() == 1 })
			if len(v.out()) != 1 {
				t.Errorf("before that %v are good", v.out())
			}
			end(i)
			eventually(t, "the end of the call", func() bool { return open.Load() == 0 })
			finish(t, r)
			if len(v.out()) > 0 || i.handles() != "0" {
				t.Errorf("%v are good, and %s handles are kept", v.out(), i.handles())
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-35, M-51: a clone ends with its power, once the run that was given it has listened to an outsider.
func TestACloneEndsWithThePowerOfItsCredential(t *testing.T) {
	t.Parallel()
	i, open, _, clone := stalledClone(t)
	i.project()
	i.config("[groups.main]\ntools = [\"memory_*\"]\n" + strings.Replace(i.configured(), "[[credential]]", "[[credential]]\npower = \"clones\"", 1))
	i.nacre("memory", "import", i.write("in.jsonl", exported("an outsider's words about clones"))).want(t, 0)
	i.unlock("clones")
	rec := i.recording("mkdir -p said/work; " + clone + " 2>/tmp/said & " + untilTold("work", "go") + `; rm -r said; ipc memory_search '{"query":"clones"}' >/dev/null; wait $! || echo it ended >greeting.txt`)
	r := i.begin("run", "Clone it", "--session", "work", "--project", "p", "--brain", "replay", "--recording", rec, "--check", "grep -q ended greeting.txt")
	eventually(t, "a clone", func() bool { return open.Load() == 1 })
	i.tell("work", "go")
	eventually(t, "the end of the clone", func() bool { return open.Load() == 0 })
	finish(t, r).want(t, 0, "merged")
	has(t, i.records("work"), `"reason":"revoked"`)
}

// M-30, M-35: what carries a credential ends with the hours that a person granted, which are a minute at
// the least.
func TestADownloadEndsWithItsHours(t *testing.T) {
	t.Parallel()
	if testpeer.Size(0, 1) == 0 {
		t.Skip("it waits for more than a minute: at the large sizes alone")
	}
	i, open, over, script := mintedDownload(t)
	i.config(i.configured() + "budget = { hours = 1, renewals = 0 }\n[approval]\nhold = \"1m\"\n")
	r := i.begin("exec", "--session", "work", "--", "sh", "-c", script)
	i.nacre("approvals", "approve", i.question().ID, "--for", "61s").want(t, 0)
	eventually(t, "a stream", func() bool { return open.Load() == 1 })
	eventually(t, "the end of the stream", func() bool { return open.Load() == 0 })
	finish(t, r)
	if !over() {
		t.Error("what was minted is good after the session")
	}
}

// edits changes config.toml.
func edits(from, to string) func(i *installation) {
	return func(i *installation) {
		i.t.Helper()
		before := i.configured()
		i.config(strings.Replace(before, from, to, 1))
		if i.configured() == before {
			i.t.Fatalf("config.toml has no %q", from)
		}
	}
}

// M-35: what an operator takes out of config.toml is in no session that a nacre opens later which read the file before.
// What is only widened there goes on as it was.
func TestALongLivedNacreGivesNoCredentialThatWasTakenOut(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	of, v := minting(t)
	ask := scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{
		Name: "shell", Input: []byte(`{"command":"ipc tool.invoke.send_box \"{\\\"recipient\\\":\\\"ada\\\",\\\"body\\\":\\\"$(curl -so /dev/null -w %{http_code} https://example.com/v1/x)\\\"}\""}`),
	}}}
	done := scriptedmodel.Turn{Text: "Done."}
	i, _ := served(t, "ask_seconds = 600\n[groups.main]\ntools = [\"send_box\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"main\"\noperator = true\n"+of.configured(),
		ask, done, ask, done, ask, done)
	i.serve()
	for n, c := range []struct{ from, to, want string }{
		{"", "", "200"},
		{`paths = ["/v1/"]`, `paths = ["/v1/", "/v2/"]`, "200"},
		{`name = "vault"`, `name = "other"`, "503"},
	} {
		i.config(strings.Replace(i.configured(), c.from, c.to, 1))
		i.say("ada:what does the host say?")
		until(t, "an answer", func() bool { return strings.Count(i.outbox(), "main ada: ") > n })
		if have := i.outbox(); !strings.HasPrefix(have[strings.LastIndex(have, "main ada: "):], "main ada: "+c.want) {
			t.Errorf("after %q became %q: have %q", c.from, c.to, have)
		}
	}
	i.recorded("*", `"kind":"lease"`, `"outcome":"refused"`, "credential vault: config.toml does not name it any more for this group")
	eventually(t, "what was minted is taken back", func() bool { return len(v.out()) == 0 })
	if v.made != 2 {
		t.Errorf("%d were minted", v.made)
	}
}

package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// hostile is an installation with a plugin in Python that does what no handler
// should, beside the plugins near and far.
func hostile(t *testing.T) *installation {
	t.Helper()
	testpeer.Need(t, "python3")
	i := reaching(t, "", "")
	const folder = "home/.local/share/nacre/plugins/hostile/"
	code, err := os.ReadFile("testdata/plugins/hostile/handler.py")
	if err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf(reachManifest, `"handler": ["python3", "-B", "handler.py"], "install": {"credentials": [{"key": "token", "description": "t"}]},`, "hostile")
	i.write(folder+"handler.py", string(code))
	i.write(folder+"manifest.json", strings.Replace(manifest, `"calls": 100`, `"calls": 1000`, 1))
	secret := i.write("token", reachSecret+"\n")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[groups.main]\ntools = [\"*_do\"]\n[access.hostile.credentials]\ntoken = { value_file = %q }\n", secret))
	return i
}

// alive waits until the hostile plugin answers again, and says so.
const alive = `timeout 60 sh -c 'until ipc hostile_do "{\"what\":\"ping\"}" | grep pong; do sleep 0.1; done'`

// D-21: whatever a handler says or does not, its calls are answered, it comes back,
// and the other plugins and the session go on.
func TestAHostileHandlerCostsItsOwnCallsAlone(t *testing.T) {
	t.Parallel()
	i := hostile(t)
	wants := []struct{ what, want string }{
		{"twice", "first"}, {"garbage", "after garbage"}, {"nan", "PLUGIN_ERROR"}, {"large", "exceeded maximum size"}, {"spin", "mine"},
		{"sameid", "asked"}, {"borrow", "[true, true, true, true, true]"}, {"throw", "PLUGIN_ERROR"}, {"die", "PLUGIN_ERROR"},
		{"complain", "complaining"}, {"deaf", "deaf"}, {"die", "PLUGIN_"}, {"die", "PLUGIN_"}, {"fill", "refused: "},
	}
	var commands []string
	for _, c := range wants {
		commands = append(commands, near("hostile", c.what)+"; "+alive)
	}
	said := i.play("a task", append(commands, near("near", "count"), near("far", "count"), near("near", "count"), `ipc get_session_info '{}'`)...)
	for n, c := range wants {
		has(t, said[n], c.want, "pong")
	}
	has(t, said[len(wants)], `"1"`)
	has(t, said[len(wants)+2], `"2"`) // the same process still
	has(t, said[len(wants)+3], `hostile`, `"failed":[]`)
	for _, parts := range [][]string{{"plugin.fault", "nobody waits"}, {"plugin.fault", "no message"}, {"plugin.crashed", "exit status 7"}, {"plugin.restarted"}} {
		i.recorded("work", append(parts, `hostile`)...)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-21: a sealed handler changes nothing of itself, sees no process but its own,
// and reaches no socket of the host's.
func TestAHostileHandlerStaysWhereItIs(t *testing.T) {
	t.Parallel()
	i := hostile(t)
	abstract := fmt.Sprintf("nacre-test-%d", os.Getpid())
	path := filepath.Join(i.work, "host.sock")
	for _, address := range []string{path, "@" + abstract} {
		listener, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			if conn, err := listener.Accept(); err == nil {
				t.Errorf("%s was reached", address)
				_ = conn.Close()
			}
		}()
	}
	said := i.play("a task", near("hostile", "rewrite"), near("hostile", "processes"), near("hostile", "sockets", path, abstract), near("near", "count"))
	if have := strings.Count(said[0], "refused"); have != 6 {
		t.Errorf("it changed its folder: %s", said[0])
	}
	has(t, said[1], "handler.py")
	hasNo(t, said[1], "door.sock", "test-reach", "replay", "nacre run", i.work)
	has(t, said[2], `"dialled": []`)
	has(t, said[3], `"1"`)
	if have := fileText(filepath.Join(i.work, "home/.local/share/nacre/plugins/hostile/manifest.json")); !strings.Contains(have, "hostile_do") {
		t.Errorf("its manifest is now %q", have)
	}
}

// D-24: what a handler leaves behind ends with it, whatever it ignores.
func TestNothingOfAHostileHandlerOutlivesItsSession(t *testing.T) {
	t.Parallel()
	i := hostile(t)
	mark := fmt.Sprintf("nacre-left-%d", os.Getpid())
	began := time.Now()
	r := i.plays("work", "a task", near("hostile", "daemon", mark), near("hostile", "stubborn"))
	said := i.said(r, "work") // it lands what was done
	has(t, r.stdout.String(), "plugin hostile: did not shut down in time and was ended")
	has(t, said[0], "left behind")
	has(t, said[1], "stubborn")
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the end took %s", took)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		if strings.Contains(fileText(path), mark) {
			t.Errorf("%s still runs", path)
		}
	}
	i.recorded("work", `"topic":"plugin.stopped"`, `"outcome":"forced"`, "hostile")
	i.nacre("audit", "verify").want(t, 0)
}

// D-21: a handler that is careless with its credential tells nobody. The credential comes neither
// as it is nor in the usual spellings, in a result, an error, a crash or an event.
func TestACarelessHandlerTellsNobodyItsCredential(t *testing.T) {
	t.Parallel()
	i := hostile(t)
	forms := []string{"plain", "base64", "basic", "inside", "hex", "HEX", "address", "quoted"}
	var commands []string
	for _, form := range forms {
		for _, way := range []string{"", "error", "plain error", "key"} {
			commands = append(commands, near("hostile", "leak", form, way))
		}
	}
	for _, form := range forms {
		commands = append(commands, near("hostile", "leak", form, "stderr")+"; "+alive)
	}
	for n, text := range i.play("a task", commands...) {
		if n < 4*len(forms) && n%4 != 2 {
			has(t, text, "[REDACTED]")
		}
		hasNoSpelling(t, commands[n], text)
	}
	chain := i.records("work")
	hasNoSpelling(t, "the chain", chain)
	has(t, chain, "plugin.crashed", "it is [REDACTED]")
	err := filepath.WalkDir(i.state(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			hasNoSpelling(t, path, fileText(path))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// hasNoSpelling wants none of what gives the secret of these tests away.
func hasNoSpelling(t *testing.T, where, text string) {
	t.Helper()
	for _, spelling := range []string{reachSecret, "quiet-harbour", "WnE4LXF1aWV0LWhhcmJvdXI", "E4LXF1aWV0LWhhcmJvdX", "cTgtcXVpZXQtaGFyYm91c", "pxOC1xdWlldC1oYXJib3Vy", "71756965742d686172626f7572", "71756965742D686172626F7572"} {
		if strings.Contains(text, spelling) {
			t.Errorf("%s gives %s away: %.300s", where, spelling, text)
		}
	}
}

// D-21, D-33: a plugin takes connections where it is served and nowhere else: in a
// session of its own the address that the operator named is nobody's.
func TestAListeningPluginListensToNobodyInASession(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close() // so that the plugin could have it
	i := reaching(t, `"listen": true,`, fmt.Sprintf("[access.near]\nlisten = %q\n", address))
	manifest := filepath.Join(i.work, "home/.local/share/nacre/plugins/near/manifest.json")
	i.write("home/.local/share/nacre/plugins/near/manifest.json", strings.Replace(fileText(manifest), `"provides": {`, `"provides": {"channels": ["near"], `, 1))
	r := i.plays("work", "a task", near("near", "count"), "touch ready; "+untilTold("work", "go"), near("near", "dial", address), "curl -sS -m 5 http://"+address+" || echo unreached")
	eventually(t, "the agent", func() bool { return isThere(filepath.Join(i.workspace("work"), "ready")) })
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("somebody listens there")
	}
	i.tell("work", "go")
	said := i.said(r, "work")
	has(t, said[0], `"1"`)
	has(t, said[2], "error: ")
	has(t, said[3], "unreached")
}

package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// deskTools lets the group main use the plugin of these tests.
const deskTools = "[groups.main]\ntools = [\"rows\", \"say\", \"inbox\", \"people\", \"send\", \"shred\", \"hang\", \"fail\", \"leak\", \"crash\"]\n"

// desk is an installation with the plugin desk and a project that holds the probe.
func desk(t *testing.T, config string) *installation {
	t.Helper()
	i := install(t)
	i.write("home/.config/nacre/config.toml", config)
	i.program("plugins/desk", "home/.local/share/nacre/plugins/desk/handler")
	i.program("probe", "p/probe")
	manifest, err := os.ReadFile("testdata/plugins/desk/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	i.write("home/.local/share/nacre/plugins/desk/manifest.json", string(manifest))
	i.project()
	return i
}

// program puts a program of testdata below the work folder.
func (i *installation) program(source, to string) {
	i.t.Helper()
	testpeer.Copy(i.t, testpeer.Fixture(i.t, "cmd/nacre/testdata/"+source), filepath.Join(i.work, to))
}

// plays begins a run whose agent runs one command after the other. What each
// of them said is left in the project.
func (i *installation) plays(session, task string, commands ...string) *running {
	i.t.Helper()
	return i.playsAs("main", session, task, commands...)
}

// playsAs is plays for a group.
func (i *installation) playsAs(group, session, task string, commands ...string) *running {
	i.t.Helper()
	lines := []byte(`{"v":1,"name":"r"}` + "\n")
	for n, c := range commands {
		c = fmt.Sprintf("mkdir -p said/%[1]s; {\n%[3]s\n} >said/%[1]s/%[2]d 2>&1; true", session, n, c)
		line, err := json.Marshal(map[string]any{"tool": "shell", "input": map[string]any{"command": c}})
		if err != nil {
			i.t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	recording := i.write(session+".jsonl", string(lines))
	return i.begin("run", task, "--brain", "replay", "--recording", recording, "--project", "p", "--group", group,
		"--session", session, "--check", "true")
}

// said is what each command of a session said, once it has ended.
func (i *installation) said(r *running, session string) []string {
	i.t.Helper()
	finish(i.t, r).want(i.t, 0, "merged")
	var all []string
	for n := 0; ; n++ {
		data, err := os.ReadFile(filepath.Join(i.work, "p/said", session, strconv.Itoa(n)))
		if os.IsNotExist(err) {
			return all
		}
		if err != nil {
			i.t.Fatal(err)
		}
		all = append(all, string(data))
	}
}

// play is plays, and then said.
func (i *installation) play(task string, commands ...string) []string {
	i.t.Helper()
	return i.said(i.plays("work", task, commands...), "work")
}

// untilTold is a command of an agent that waits for tell. It lists a folder that the
// agent made, which no layer keeps an older list of.
func untilTold(session, name string) string {
	return "until ls said/" + session + " | grep -qx " + name + "; do sleep 0.02; done"
}

// tell makes a file where a session's agent waits for it.
func (i *installation) tell(session, name string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.workspace(session), "said", session, name), nil, 0o666); err != nil {
		i.t.Fatal(err)
	}
}

// workspace is where a session's agent writes: the layer over its base, or the whole
// copy where there are no layers.
func (i *installation) workspace(session string) string {
	work := i.state("sessions/" + session + "/work")
	if upper := filepath.Join(work, nacre.LayerUpper); isThere(upper) {
		return upper
	}
	return work
}

// done is what the plugin desk really did.
func (i *installation) done() string {
	i.t.Helper()
	data, err := os.ReadFile(i.state("data/desk/done"))
	if err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
	return string(data)
}

// digestOf is how records measure a value that they do not keep.
func digestOf(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

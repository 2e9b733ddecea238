package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// deskTools lets the group main use the plugin of these tests.
const deskTools = "[groups.main]\ntools = [\"rows\", \"say\", \"inbox\", \"people\", \"send\", \"shred\", \"hang\", \"fail\", \"leak\", \"crash\"]\n"

// deskPrograms builds the handler of the plugin desk, the client probe and the brain reader.
var deskPrograms = sync.OnceValue(func() error { //nolint:gochecknoglobals // built once, and only where it is used
	for _, name := range []string{"plugins/desk", "probe", "reader"} {
		command := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(bin, "test-"+filepath.Base(name)), "./testdata/"+name)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
})

// desk is an installation with the plugin desk and a project that holds the probe.
func desk(t *testing.T, config string) *installation {
	t.Helper()
	if err := deskPrograms(); err != nil {
		t.Fatal(err)
	}
	i := install(t)
	i.write("home/.config/nacre/config.toml", config)
	i.program("test-desk", "home/.local/share/nacre/plugins/desk/handler")
	i.program("test-probe", "p/probe")
	manifest, err := os.ReadFile("testdata/plugins/desk/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	i.write("home/.local/share/nacre/plugins/desk/manifest.json", string(manifest))
	i.project()
	return i
}

// program puts a binary that was built for these tests below the work folder.
func (i *installation) program(name, to string) {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(bin, name))
	if err != nil {
		i.t.Fatal(err)
	}
	if err := os.Chmod(i.write(to, string(data)), 0o755); err != nil {
		i.t.Fatal(err)
	}
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

// tell makes a file in the work folder of the session work, which its agent waits for.
func (i *installation) tell(name string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.state("sessions/work/work"), name), nil, 0o666); err != nil {
		i.t.Fatal(err)
	}
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

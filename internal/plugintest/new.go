package plugintest

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

//go:embed templates
var templates embed.FS

// buildTimeout is for the first build of a new plugin in Go.
const buildTimeout = 5 * time.Minute

// The oldest node that runs TypeScript as it is.
const (
	oldestNodeMajor = 22
	oldestNodeMinor = 18
)

// language is what a new plugin can be written in.
type language struct {
	name string
	// handler is the manifest's; empty means the file handler.
	handler, files, commands string
	// finish builds what has to be built, and says what is missing on this machine.
	finish func(ctx context.Context, dir string) (missing string)
}

func languages() []language {
	return []language{
		{"go", "", "`main.go` (with `protocol.go`)", "go test .                   # the plugin's own tests\nCGO_ENABLED=0 go build -o handler .", buildGo},
		{"python", `["python3", "handler.py"]`, "`handler.py`", "python3 -B -m unittest      # the plugin's own tests", needPython},
		{"typescript", `["node", "handler.ts"]`, "`handler.ts`", "node --test                 # the plugin's own tests", needNode},
	}
}

// Languages are those that [New] knows.
func Languages() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// New writes a plugin that works at once into a new folder below parent: a
// manifest, a handler in the language, a skill and tests. missing says what
// this machine lacks to run it; empty is nothing. On an error nothing is left.
func New(ctx context.Context, parent string, name nacre.PluginName, lang string) (dir, missing string, err error) {
	all := languages()
	at := slices.IndexFunc(all, func(l language) bool { return l.name == lang })
	if at < 0 {
		return "", "", fmt.Errorf("language %.40q: use one of %s", lang, strings.Join(Languages(), ", "))
	}
	l := all[at]
	dir, err = create(parent, name, func(staged string) error {
		missing, err = l.write(ctx, staged, name)
		return err
	})
	return dir, missing, err
}

// NewFrom writes a plugin of files that are made already, such as the manifest
// of an MCP server.
func NewFrom(parent string, name nacre.PluginName, files map[string][]byte) (dir string, err error) {
	return create(parent, name, func(staged string) error {
		for file, text := range files {
			if err := writeNew(filepath.Join(staged, file), text); err != nil {
				return err
			}
		}
		return nil
	})
}

// create fills a folder beside the new one and moves it there when it is whole.
func create(parent string, name nacre.PluginName, fill func(dir string) error) (string, error) {
	if _, err := nacre.ParsePluginName(string(name)); err != nil {
		return "", err
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, string(name))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("%s is there already: choose another name, or another folder with --dir", dir), ignoreNil(err))
	}
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // a plugin is a program, not a secret
		return "", err
	}
	staged, err := os.MkdirTemp(parent, ".new-*")
	if err != nil {
		return "", err
	}
	err = errors.Join(os.Chmod(staged, 0o755), fill(staged)) //nolint:gosec // a plugin is a program, not a secret
	if err == nil {
		err = os.Rename(staged, dir) // refused where somebody made it meanwhile
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(staged))
	}
	return dir, nil
}

func ignoreNil(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (l language) write(ctx context.Context, dir string, name nacre.PluginName) (missing string, err error) {
	tool := strings.ReplaceAll(string(name), "-", "_")
	if tool[0] < 'a' || tool[0] > 'z' {
		tool = "p" + tool
	}
	if len(tool) > 50 {
		tool = tool[:50] // with _list it is a tool's name still
	}
	handler := ""
	if l.handler != "" {
		handler = "\n  \"handler\": " + l.handler + ","
	}
	values := map[string]string{
		"Name": string(name), "Tool": tool, "Module": "example.com/" + string(name),
		"Handler": handler, "Files": l.files, "Commands": l.commands,
	}
	for _, from := range []string{"common", l.name} {
		entries, err := templates.ReadDir("templates/" + from)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			to := strings.TrimSuffix(e.Name(), ".tmpl")
			if to == "skill.md" {
				to = filepath.Join("skill", string(name)+".md")
			}
			if err := fillIn(filepath.Join(dir, to), "templates/"+from+"/"+e.Name(), values); err != nil {
				return "", err
			}
		}
	}
	return l.finish(ctx, dir), nil
}

// fillIn writes a template with its fields, such as [[.Name]], filled in. That is
// too little for text/template, which finds methods by their names: for it the
// linker keeps every method of every type there is, a tenth of nacre.
func fillIn(to, from string, values map[string]string) error {
	text, err := templates.ReadFile(from)
	if err != nil {
		return err
	}
	for field, value := range values {
		text = bytes.ReplaceAll(text, []byte("[[."+field+"]]"), []byte(value))
	}
	if bytes.Contains(text, []byte("[[.")) {
		return fmt.Errorf("%s: a field without a value", from)
	}
	return writeNew(to, text)
}

func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a plugin is a program, not a secret
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // a plugin is a program, not a secret
}

// buildGo makes the handler, so that the plugin works at once.
func buildGo(ctx context.Context, dir string) string {
	const again = "then run CGO_ENABLED=0 go build -o handler . in the folder"
	program, err := exec.LookPath("go")
	if err != nil {
		return "go is not installed: install it, " + again
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "build", "-trimpath", "-ldflags", "-s -w", "-o", "handler", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("go build: %s: put it right, %s", shown(strings.TrimSpace(string(out))), again)
	}
	return ""
}

func needPython(context.Context, string) string {
	if _, err := exec.LookPath("python3"); err != nil {
		return "python3 is not installed: install it to run the handler"
	}
	return ""
}

func needNode(ctx context.Context, _ string) string {
	want := fmt.Sprintf("%d.%d", oldestNodeMajor, oldestNodeMinor)
	program, err := exec.LookPath("node")
	if err != nil {
		return "node is not installed: install " + want + " or newer to run the handler"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	have := strings.TrimSpace(string(out))
	if err != nil || !newEnough(have) {
		return fmt.Sprintf("node is %.20s, and runs TypeScript as it is from %s on: install that, or make handler.js of handler.ts and name it in the manifest", have, want)
	}
	return ""
}

// newEnough reads a version such as v22.18.0. 23 had it from 23.6 on.
func newEnough(version string) bool {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if errA != nil || errB != nil {
		return false
	}
	switch a {
	case oldestNodeMajor:
		return b >= oldestNodeMinor
	case 23:
		return b >= 6
	}
	return a > oldestNodeMajor
}

package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
)

// maxDevcontainer is the largest devcontainer.json read, in bytes.
const maxDevcontainer = 1 << 20

// Group is whose session it is. With several tenants there is no default one.
func (inst *Installation) Group(named nacre.Group) (nacre.Group, error) {
	if !inst.Config.MultiTenant {
		if named == "" {
			return DefaultGroup, nil
		}
		return named, nil
	}
	if named == "" {
		return "", config.Errorf("multi_tenant: say whose session it is with --group")
	}
	if _, known := inst.Config.Groups[string(named)]; !known {
		return "", config.Errorf("multi_tenant: config.toml has no [groups.%s]", named)
	}
	return named, nil
}

// Backend opens what sandboxes are started with, or says which setting forbids it.
func (inst *Installation) Backend(stateDir string) (sandbox.Backend, error) {
	return inst.openBackend(stateDir, false)
}

// BackendAhead opens one for a session that starts a command as soon as it is open.
func (inst *Installation) BackendAhead(stateDir string) (sandbox.Backend, error) {
	return inst.openBackend(stateDir, true)
}

func (inst *Installation) openBackend(stateDir string, ahead bool) (sandbox.Backend, error) {
	c := inst.Config.Sandbox
	if c.Backend == "" || c.Backend == config.NativeBackend {
		box, err := sandbox.Open(sandbox.Options{Init: inst.Program("sandbox-init"), StateDir: stateDir, Ahead: ahead})
		if err != nil {
			return nil, &NotReady{What: "the native sandbox cannot start", Err: err}
		}
		return box, nil
	}
	if c.Backend == "k8s" {
		return openPods(inst, stateDir)
	}
	image, err := imageOf(c.Image)
	if err != nil {
		return nil, config.Errorf("[sandbox] image: %w", err)
	}
	box, err := container.Open(context.Background(), container.Options{
		Engine: c.Backend, Socket: c.Socket, Runtime: c.Runtime, Image: image, Init: inst.Program("sandbox-init"), StateDir: stateDir,
		Apart: runtime.GOOS != "linux",
	})
	if err != nil {
		return nil, &NotReady{What: "the " + c.Backend + " sandbox cannot start", Err: err}
	}
	return box, nil
}

// Sandboxes says how they are started, also to a nacre that has another home.
func (inst *Installation) Sandboxes() config.Sandbox {
	c := inst.Config.Sandbox
	if c.Backend == container.Podman && c.Socket == "" {
		c.Socket = container.DefaultSocket(c.Backend)
	}
	return c
}

// openPods opens what claims pods: a program of its own, which is installed beside this
// one or in the PATH.
func openPods(inst *Installation, stateDir string) (sandbox.Backend, error) {
	c := inst.Config.Sandbox
	program := inst.Program(sandbox.PodProgram)
	if filepath.Base(program) != sandbox.PodProgram {
		var err error
		if program, err = hostpath.LookPath(sandbox.PodProgram); err != nil {
			return nil, &NotReady{What: "the k8s sandbox cannot start", Err: err, Next: "install the package nacre-k8s of the same release (docs/kubernetes.md)"}
		}
	}
	box, err := sandbox.OpenPods(context.Background(), sandbox.PodOptions{
		Program: program, StateDir: stateDir, Settings: sandbox.PodSettings{
			Kubeconfig: c.K8s.Kubeconfig, Context: c.K8s.Context, Namespace: c.K8s.Namespace, Pool: c.K8s.Pool,
			Listen: c.K8s.Listen, Address: c.K8s.Address, Runtime: c.Runtime,
		},
	})
	if err != nil {
		return nil, &NotReady{What: "the k8s sandbox cannot start", Err: err}
	}
	return box, nil
}

// EndOrphans ends what a dead holder left, in whichever backend it was.
func EndOrphans(stateDir string) ([]string, error) {
	ended, err := sandbox.EndOrphans(stateDir)
	contained, containedErr := container.EndOrphans(stateDir)
	return append(ended, contained...), errors.Join(err, containedErr)
}

// imageOf is the image itself, or the one that a devcontainer.json names.
// Nothing else in that file counts: it is not the operator's.
func imageOf(named string) (string, error) {
	if !filepath.IsAbs(named) {
		return named, nil
	}
	f, err := os.Open(named)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read-only
	text, err := io.ReadAll(io.LimitReader(f, maxDevcontainer+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxDevcontainer {
		return "", fmt.Errorf("%s is larger than %d bytes", named, maxDevcontainer)
	}
	var d struct {
		Image string `json:"image"`
	}
	if err := json.Unmarshal(plainJSON(text), &d); err != nil {
		return "", fmt.Errorf("%s: %w", named, err)
	}
	if d.Image == "" || strings.HasPrefix(d.Image, "/") || strings.ContainsAny(d.Image, " \t\n$") {
		return "", fmt.Errorf("%s names no image: build one from it, and name that", named)
	}
	return d.Image, nil
}

// plainJSON takes comments and trailing commas out of JSON, as devcontainer.json may have them.
func plainJSON(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	comma := -1 // where a comma is that only blanks have followed
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := stringEnd(text, i)
			plain, i, comma = append(plain, text[i:end]...), end-1, -1
		case c == '/' && i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*'):
			i = commentEnd(text, i)
		case c == ',':
			comma, plain = len(plain), append(plain, c)
		case (c == '}' || c == ']') && comma >= 0:
			plain[comma] = ' '
			plain, comma = append(plain, c), -1
		default:
			if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				comma = -1
			}
			plain = append(plain, c)
		}
	}
	return plain
}

// stringEnd is the index after the string that begins at start.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// commentEnd is the index of the last byte of the comment that begins at start.
func commentEnd(text []byte, start int) int {
	end := "\n"
	if text[start+1] == '*' {
		end = "*/"
	}
	n := bytes.Index(text[start+2:], []byte(end))
	if n < 0 {
		return len(text)
	}
	return start + 2 + n + len(end) - 1
}

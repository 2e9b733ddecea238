package assembly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
)

// nativeBackend is what sandboxes are started with unless the config says otherwise.
const nativeBackend = "native"

// maxDevcontainer is the largest devcontainer.json read, in bytes.
const maxDevcontainer = 1 << 20

// SandboxConfig says what starts sandboxes (M-11). Its zero value is the native backend.
type SandboxConfig struct {
	// Backend is "native", "docker" or "podman".
	Backend string `toml:"backend"`
	// Runtime of the engine, such as "runsc"; empty means the engine's default.
	Runtime string `toml:"runtime"`
	// Image is "NAME@sha256:…", "sha256:…", a name, or the path of a
	// devcontainer.json whose image is taken (M-15).
	Image string `toml:"image"`
	// Socket is the engine's, where it is not in its usual place.
	Socket string `toml:"socket"`
}

func (s SandboxConfig) check() error {
	switch s.Backend {
	case "", nativeBackend:
		if s.Runtime != "" || s.Image != "" || s.Socket != "" {
			return errors.New("[sandbox]: runtime, image and socket are a container engine's: write backend = \"docker\" or \"podman\" too")
		}
	case container.Docker, container.Podman:
		if s.Image == "" {
			return fmt.Errorf("[sandbox]: backend = %q wants image = \"NAME@sha256:…\", or the path of a devcontainer.json", s.Backend)
		}
	default:
		return fmt.Errorf("[sandbox]: backend = %q: use native, docker or podman", s.Backend)
	}
	return nil
}

// checkTenants refuses what would serve several tenants with a single user's
// defaults (M-14).
func (c Config) checkTenants() error {
	if !c.MultiTenant {
		return nil
	}
	if !container.Isolated(c.Sandbox.Runtime) {
		return errors.New("multi_tenant = true wants a kernel of their own for agents: write backend = \"docker\" or \"podman\" " +
			"and runtime = \"runsc\" (gVisor) or \"kata\" under [sandbox]")
	}
	if len(c.Groups) == 0 {
		return errors.New("multi_tenant = true wants every tenant's group: write [groups.NAME] with its roles and tools")
	}
	for name, g := range c.Groups {
		if len(g.Roles) == 0 {
			return fmt.Errorf("multi_tenant = true: [groups.%s] has no roles, and tenants get no default", name)
		}
	}
	return nil
}

// group is whose session it is. With several tenants there is no default one.
func (r *Runtime) group(named nacre.Group) (nacre.Group, error) {
	if !r.config.MultiTenant {
		if named == "" {
			return DefaultGroup, nil
		}
		return named, nil
	}
	if named == "" {
		return "", badConfig("multi_tenant: say whose session it is with --group")
	}
	if _, known := r.config.Groups[string(named)]; !known {
		return "", badConfig("multi_tenant: config.toml has no [groups.%s]", named)
	}
	return named, nil
}

// backend opens what sandboxes are started with, or says which setting forbids it.
func (r *Runtime) backend(stateDir string) (sandbox.Backend, error) {
	return r.openBackend(stateDir, false)
}

// backendAhead opens one for a session that starts a command as soon as it is open.
func (r *Runtime) backendAhead(stateDir string) (sandbox.Backend, error) {
	return r.openBackend(stateDir, true)
}

func (r *Runtime) openBackend(stateDir string, ahead bool) (sandbox.Backend, error) {
	c := r.config.Sandbox
	if c.Backend == "" || c.Backend == nativeBackend {
		box, err := sandbox.Open(sandbox.Options{Init: r.program("sandbox-init"), StateDir: stateDir, Ahead: ahead})
		if err != nil {
			return nil, &NotReady{What: "the native sandbox cannot start", err: err}
		}
		return box, nil
	}
	image, err := imageOf(c.Image)
	if err != nil {
		return nil, badConfig("[sandbox] image: %w", err)
	}
	box, err := container.Open(context.Background(), container.Options{
		Engine: c.Backend, Socket: c.Socket, Runtime: c.Runtime, Image: image, Init: r.program("sandbox-init"), StateDir: stateDir,
	})
	if err != nil {
		return nil, &NotReady{What: "the " + c.Backend + " sandbox cannot start", err: err}
	}
	return box, nil
}

// endOrphans ends what a dead holder left, in whichever backend it was.
func endOrphans(stateDir string) ([]string, error) {
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

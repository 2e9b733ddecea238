package folders_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/folders"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
)

// engine is a backend that, as those of containers, brings nothing into a sandbox that runs.
type engine struct{}

func (engine) Name() string { return "docker" }
func (engine) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, errors.New("nothing is started")
}
func (engine) PeerUIDs() []int       { return nil }
func (engine) HostTools() bool       { return false }
func (engine) Holds() string         { return "" }
func (engine) NotEnforced() []string { return nil }
func (engine) Close() error          { return nil }

// M-42: where the backend cannot show a folder, the agent is told so, and by what a person can change it. Nobody is
// asked, whatever the path is.
func TestABackendThatShowsNoFolderSaysSo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	lib := filepath.Join(home, "lib")
	if err := errors.Join(os.Mkdir(filepath.Join(home, "run"), 0o700), os.Mkdir(lib, 0o700)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run"), "PATH": os.Getenv("PATH")}
	inst, err := installation.Open(t.Context(), installation.Options{Getenv: func(name string) string { return env[name] }, Executable: "/none", Now: time.Now, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Open(t.Context(), session.Options{
		Registry: inst.Registry, Sandbox: func(string) (sandbox.Backend, error) { return engine{}, nil }, EndOrphans: installation.EndOrphans, Keys: inst.Keys, Now: time.Now,
		Session: registry.Session{SessionStatus: nacre.SessionStatus{ID: "asks", Group: "main", Kind: "exec", State: nacre.SessionOpen, Started: time.Now()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context(), "done", true); err != nil {
			t.Error(err)
		}
	}()
	asked := folders.New(inst, filepath.Join(home, "p"), func(nacre.Step) { t.Error("the operator is warned of what only the agent has to know") })
	asked.Follow(s)
	defer asked.Close()
	for _, path := range []string{"../lib", "~/lib", lib, "/etc"} {
		arguments, err := json.Marshal(map[string]string{"path": path, "reason": "its types"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = asked.Tool().Driver.Do(t.Context(), nacre.Invocation{Arguments: arguments})
		var refusal *nacre.Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("%s: have %v", path, err)
		}
		for _, want := range []string{"by the native backend alone, and this session has another one", "leave backend out of [sandbox] in config.toml", "start you in a folder that holds what you need"} {
			if !strings.Contains(refusal.Message, want) {
				t.Errorf("%s: have %q without %q", path, refusal.Message, want)
			}
		}
	}
	if waiting := s.Approvals.List(); len(waiting) > 0 {
		t.Errorf("a person is asked: %+v", waiting)
	}
}

package layering_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/layering"
	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

var errNoRoom = errors.New("no room")

// refusing is a backend that starts nothing, and counts how often it was asked to.
type refusing struct {
	sandbox.Backend
	asked int
}

func (*refusing) Name() string { return "refusing" }

func (r *refusing) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	r.asked++
	return nil, errNoRoom
}

// P-03: a trial may fail for too little memory as well as for a kernel that lays no layers. It is
// believed for a while, and not until the machine starts again.
func TestAFailureIsTriedAgain(t *testing.T) {
	box, now := &refusing{}, time.Unix(1_800_000_000, 0)
	m := layering.Machine{Box: box, Dir: t.TempDir(), Version: "1", Now: func() time.Time { return now }}
	for _, step := range []struct {
		later time.Duration
		asked int
	}{{0, 1}, {time.Minute, 1}, {10 * time.Minute, 2}, {-time.Hour, 3}} {
		now = now.Add(step.later)
		if err := layering.Work(t.Context(), m); err == nil {
			t.Fatal("layers work where nothing starts")
		}
		if box.asked != step.asked {
			t.Errorf("%v later: have %d trials, want %d", step.later, box.asked, step.asked)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(m.Dir, "try*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// P-03: what a trial that was killed left goes with the next, and with bases that
// nobody uses.
func TestWhatAKilledTrialLeftIsRemoved(t *testing.T) {
	for name, sweep := range map[string]func(layering.Machine){
		"by the next trial": func(m layering.Machine) { _ = layering.Try(t.Context(), m) },
		"with old bases":    func(m layering.Machine) { overlay.Evict(m.Dir, m.Now(), registry.Discard) },
	} {
		t.Run(name, func(t *testing.T) {
			m := layering.Machine{Box: &refusing{}, Dir: t.TempDir(), Version: "1", Now: time.Now}
			for _, dir := range []string{"try/base", "try/layer/upper"} {
				if err := os.MkdirAll(filepath.Join(m.Dir, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(m.Dir, "try.lock"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			sweep(m)
			if left, _ := filepath.Glob(filepath.Join(m.Dir, "try*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

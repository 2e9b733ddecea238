// Package layering promises to say whether a sandbox can work in a layer over a
// folder on this machine, by having tried it once, and to run nothing but that. A
// kernel, a file system or a backend that refuses layers, or does half of what is
// asked, is found by what is seen afterwards.
package layering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

const (
	// triedFile holds what trying has said.
	triedFile = "layers.json"
	// tryFolder is where it is tried. It is locked as a base is, so that what one that
	// was killed has left goes with the bases that nobody uses.
	tryFolder = "try"
	// again is for how long a failure is believed: a full disk or too little memory
	// looks like a kernel that refuses.
	again = 10 * time.Minute
)

// Machine is what layers are tried on. All of it is required but System.
type Machine struct {
	Box    sandbox.Backend
	System []nacre.Mount
	// Dir is where bases are kept.
	Dir string
	// Version is that of this nacre.
	Version string
	Now     func() time.Time
}

// Of is what layers are tried on where sandboxes of a backend work, for this version of nacre.
func Of(box sandbox.Backend, paths registry.Paths, version string, now func() time.Time) Machine {
	m := Machine{Box: box, Dir: filepath.Join(paths.State, "bases"), Version: version, Now: now}
	if box.HostTools() {
		m.System = sandbox.SystemMounts()
	}
	return m
}

// tried is what trying once has said: it holds for one boot, one backend and
// one nacre, and a failure for a while.
type tried struct {
	Boot    string `json:"boot"`
	Backend string `json:"backend"`
	Version string `json:"version"`
	// Why layers cannot be had, empty where they can, and when that was found.
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at,omitzero"`
}

// Work tells whether a sandbox can work in a layer over a folder here. It
// tries once, and remembers.
func Work(ctx context.Context, m Machine) error {
	now, err := m.now()
	if err != nil {
		return err
	}
	var known tried
	if data, err := os.ReadFile(m.file()); err != nil || json.Unmarshal(data, &known) != nil {
		return Try(ctx, m)
	}
	age := m.Now().Sub(known.At)
	switch {
	case known.Boot != now.Boot, known.Backend != now.Backend, known.Version != now.Version:
		return Try(ctx, m)
	case known.Why == "":
		return nil
	case age < 0 || age > again:
		return Try(ctx, m)
	}
	return errors.New(known.Why)
}

func (m Machine) file() string {
	return filepath.Join(m.Dir, triedFile)
}

// now is of what it is tried.
func (m Machine) now() (tried, error) {
	boot, err := disk.Boot()
	return tried{Boot: boot, Backend: m.Box.Name(), Version: m.Version}, err
}

// Try tries it, and writes down what it saw.
func Try(ctx context.Context, m Machine) error {
	now, err := m.now()
	if err != nil {
		return err
	}
	dir := filepath.Dir(m.file())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	failed := tryLayer(ctx, m, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		now.Why, now.At = failed.Error(), m.Now().UTC()
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = disk.Write(m.file(), data, 0o600)
	}
	return errors.Join(failed, err)
}

// tryLayer has a sealed program change and remove files of a folder below dir, and
// looks at what the layer then holds.
func tryLayer(ctx context.Context, m Machine, dir string) (err error) {
	room := filepath.Join(dir, tryFolder)
	lock, err := lockFolder(ctx, room)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Discard(room), os.Remove(lock.Name()), lock.Close()) }()
	if err := registry.Discard(room); err != nil { // of one that was killed
		return err
	}
	base, layer := filepath.Join(room, "base"), filepath.Join(room, "layer")
	for _, folder := range []string{room, base, layer, filepath.Join(layer, nacre.LayerUpper), filepath.Join(layer, nacre.LayerWork)} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
	}
	for _, file := range []string{"kept", "gone"} {
		if err := os.WriteFile(filepath.Join(base, file), []byte("before"), 0o644); err != nil {
			return err
		}
	}
	p, err := posture.Compute(posture.Input{Project: layer, Base: base, Offline: true, System: m.System})
	if err != nil {
		return err
	}
	if err := runs(ctx, m.Box, p, "printf after >kept && rm gone && exit 7", 7); err != nil {
		return err
	}
	return sawLayer(base, filepath.Join(layer, nacre.LayerUpper))
}

// lockFolder waits until no other tries here.
func lockFolder(ctx context.Context, room string) (*os.File, error) {
	lock, err := overlay.Lock(room, unix.LOCK_EX)
	for err == nil && lock == nil {
		if err = overlay.Pause(ctx); err == nil {
			lock, err = overlay.Lock(room, unix.LOCK_EX)
		}
	}
	return lock, err
}

// sawLayer tells whether a layer keeps what was written, and the base is as it was.
func sawLayer(base, upper string) error {
	for name, want := range map[string]string{
		filepath.Join(upper, "kept"): "after", filepath.Join(base, "kept"): "before", filepath.Join(base, "gone"): "before",
	} {
		if have, err := os.ReadFile(name); err != nil || string(have) != want {
			return errors.Join(fmt.Errorf("the layer does not hold what was written over its base: %s", filepath.Base(name)), err)
		}
	}
	if info, err := os.Lstat(filepath.Join(upper, "gone")); err != nil || !overlay.IsGone(info) {
		return errors.Join(errors.New("the layer does not hold what was removed"), err)
	}
	return nil
}

// Starts runs a program sealed under the given limits, on no project and without a network.
// The error says why a sandbox cannot start here.
func Starts(ctx context.Context, m Machine, limits nacre.Limits) error {
	p, err := posture.Compute(posture.Input{Offline: true, System: m.System, Limits: limits})
	if err != nil {
		return err
	}
	return runs(ctx, m.Box, p, "exit 7", 7)
}

// runs starts a script sealed, which has to end with a code.
func runs(ctx context.Context, box sandbox.Backend, p nacre.Posture, script string, code int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // nothing was written
	process, err := box.Start(ctx, sandbox.Command{Posture: p, Label: "doctor", Argv: []string{"/bin/sh", "-c", script}, Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		return err
	}
	exit, err := process.Wait()
	if err == nil && exit.Code != code {
		err = fmt.Errorf("a program that should end with %d ended with %d", code, exit.Code)
	}
	return err
}

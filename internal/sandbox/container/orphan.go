package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

const (
	recordFile = "record.json"
	// maxRecord is the largest record read, in bytes.
	maxRecord = 64 << 10
)

// record says how to find a container again, and who watches over it.
type record struct {
	Label  string           `json:"label"`
	Socket string           `json:"socket"`
	Keeper sandbox.Identity `json:"keeper"`
}

// nameForm is what containers of nacre are called: the label, and 16 digits.
var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^nacre-[a-z0-9-]{1,40}-[0-9a-f]{16}$`) })

// write comes before the container is made, so that none is without.
func (b *bootDir) write(label, socket string) error {
	keeper, err := sandbox.Identify(os.Getpid())
	if err != nil {
		return err
	}
	text, err := json.Marshal(record{label, socket, keeper})
	if err != nil {
		return err
	}
	partial := filepath.Join(b.dir, recordFile+".partial")
	if err := os.WriteFile(partial, text, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, filepath.Join(b.dir, recordFile))
}

// EndOrphans removes the containers recorded in stateDir whose nacre is gone,
// and returns their labels (M-16): PID 1 of each ends with its nacre by itself,
// unless it is frozen. Containers that are being watched are left alone.
func EndOrphans(stateDir string) ([]string, error) {
	dirs, err := os.ReadDir(filepath.Join(stateDir, recordDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ended []string
	var failures []error
	for _, d := range dirs {
		label, err := endOrphan(filepath.Join(stateDir, recordDir, d.Name()), d.Name())
		if err != nil {
			failures = append(failures, fmt.Errorf("container %s: %w", d.Name(), err))
		} else if label != "" {
			ended = append(ended, label)
		}
	}
	return ended, errors.Join(failures...)
}

func endOrphan(dir, name string) (string, error) {
	if !nameForm().MatchString(name) {
		return "", errors.New("not a record: remove it")
	}
	r, err := readRecord(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(unstage(name), os.RemoveAll(dir)) // its writer died before there was a container
	}
	if err != nil {
		return "", err
	}
	if r.Keeper.Lives() {
		return "", nil
	}
	found, err := removeOrphan(r.Socket, name)
	if err != nil {
		return "", fmt.Errorf("%w (start the engine, or remove %s if it is gone for good)", err, dir)
	}
	if err := errors.Join(unstage(name), os.RemoveAll(dir)); err != nil || !found {
		return "", err
	}
	return r.Label, nil
}

func readRecord(file string) (record, error) {
	var r record
	info, err := os.Lstat(file)
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return r, errors.New("not a record: remove it")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Keeper.Pid <= 0 || !filepath.IsAbs(r.Socket) {
		return r, errors.New("not a record: remove it")
	}
	return r, nil
}

// removeOrphan removes the container of this name, if it is nacre's and there.
func removeOrphan(socket, name string) (found bool, err error) {
	engine, err := dial(socket)
	if err != nil {
		return false, err
	}
	defer func() { _ = engine.Close() }() // idle
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	c, err := engine.inspect(ctx, name)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.Config == nil || c.Config.Labels[labelName] != name {
		return false, errors.New("the engine's container of that name is not nacre's: refused")
	}
	return c.State != nil && c.State.Running, remove(ctx, engine, name)
}

// remove ends a container, a frozen one too, and all that it had.
func remove(ctx context.Context, engine *engine, name string) error {
	err := engine.remove(ctx, name)
	if err == nil || errors.Is(err, errNotFound) {
		return nil
	}
	_ = engine.unpause(ctx, name) // some engines kill nothing that is frozen
	if err = engine.remove(ctx, name); errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

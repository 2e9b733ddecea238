package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// seenFile keeps, in the folder of keys, how far the chains of each machine reached in the store when
	// they were last verified here. maxSeen is its largest size in bytes.
	seenFile, maxSeen = "store.seen", 4 << 20
)

// seen are the signed heads of machines' indexes, by the machines' names. Who can write to the database, and
// removes the rows of a machine or puts older ones in their place, cannot take them from here.
type seen map[string]audit.Head

func (m *Machine) seenFile() string { return filepath.Join(m.paths.Keys(), seenFile) }

// seen reads what was verified here before; nothing where nothing was.
func (m *Machine) seen() (seen, error) {
	text, err := disk.Read(m.seenFile(), maxSeen)
	if errors.Is(err, fs.ErrNotExist) {
		return seen{}, nil
	}
	var heads map[string][]byte
	if err == nil {
		err = json.Unmarshal(text, &heads)
	}
	all := seen{}
	for name, head := range heads {
		var wrong error
		all[name], wrong = audit.ParseHead(head)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it from a backup", m.seenFile(), err)
	}
	return all, nil
}

// keep writes it down whole.
func (s seen) keep(path string) error {
	heads := make(map[string][]byte, len(s))
	for name, head := range s {
		heads[name] = head.Bytes()
	}
	text, err := json.Marshal(heads)
	if err != nil {
		return err
	}
	return disk.Write(path, text, 0o600)
}

// missing says that the store has less of a machine than was verified here: nothing, or what does not reach
// as far, as why says.
func missing(m *Machine, name string, head audit.Head, why error) error {
	has := "is missing from the store"
	if why != nil {
		has = "is no longer whole in the store (" + why.Error() + ")"
	}
	return fmt.Errorf("%w: the chain of machine %s %s: it reached record %d when it was verified here. Somebody removed rows, or put a copy of the store back. If that was you, remove %s",
		audit.ErrTampered, name, has, head.Seq, m.seenFile())
}

// Package roster keeps who may decide. It reads the operators of the config and the identities that
// were paired with them, anew each time it is asked. So a person who was removed a moment ago
// decides nothing. What cannot be read whole names nobody.
package roster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// pairedName is the file of paired identities, in the operator's config folder.
	pairedName = "operators.toml"
	// windowName is the file of the pairing that goes on, in the state folder.
	windowName = "pairing.json"
	lockName   = ".operators.lock"
	// maxPaired is how many identities are paired in all, and maxFile the largest file of
	// them, in bytes.
	maxPaired = 1000
	maxFile   = 1 << 20
	head      = "# Written by nacre: identities that became an operator's. nacre operators unpair takes one back.\n\n"
)

// Roster is who may decide in one installation.
type Roster struct {
	Config, State string
	Now           func() time.Time
}

// Directory is who may decide now.
func (r Roster) Directory() (person.Directory, error) {
	c, err := config.Load(r.Config)
	if err != nil {
		return person.Directory{}, err
	}
	paired, err := r.paired()
	return person.Directory{Operators: c.Operators, Paired: paired, Owner: strconv.Itoa(os.Geteuid())}, err
}

func (r Roster) paired() ([]person.Paired, error) {
	path := filepath.Join(r.Config, pairedName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: %d bytes, at most %d", path, len(data), maxFile)
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Paired []person.Paired `toml:"paired"`
	}
	err = atom.DecodeOwn(data, &file)
	for _, p := range file.Paired {
		_, wrong := person.ParseIdentity(p.Identity)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file.Paired, nil
}

// OpenPairing lets identities be paired with an operator for ten minutes.
func (r Roster) OpenPairing(ctx context.Context, operator string) (person.Window, error) {
	directory, err := r.Directory()
	if err != nil {
		return person.Window{}, err
	}
	if _, known := directory.Operators[operator]; !known {
		return person.Window{}, fmt.Errorf("%.64q is not an operator: write [operators.NAME] into %s first", operator, filepath.Join(r.Config, config.FileName))
	}
	w := person.OpenWindow(operator, r.Now())
	return w, r.change(ctx, func(person.Window) (person.Window, error) { return w, nil })
}

// Ask gives the code that an identity shows in its chat. Outside of a pairing, and for one
// that is somebody's already, it fails with [person.ErrNoPairing], and the sender is told nothing.
func (r Roster) Ask(ctx context.Context, id person.Identity) (code string, err error) {
	directory, err := r.Directory()
	if err != nil {
		return "", err
	}
	if _, err := directory.Who(id); err == nil {
		return "", person.ErrNoPairing
	}
	if w, err := r.window(); err != nil || !w.Open(r.Now()) {
		return "", errors.Join(err, person.ErrNoPairing) // without a lock: ten thousand strangers ask
	}
	drawn := newCode()
	err = r.change(ctx, func(w person.Window) (person.Window, error) {
		var err error
		w, code, err = w.Ask(id, drawn, r.Now())
		return w, err
	})
	return code, err
}

// Approve makes the identity that waits with a code the operator's.
func (r Roster) Approve(ctx context.Context, operator, code string) (id person.Identity, err error) {
	var wrong error
	err = r.change(ctx, func(w person.Window) (person.Window, error) {
		w, id, wrong = w.Approve(operator, code, r.Now())
		if wrong == nil {
			return w, r.add(person.Paired{Operator: operator, Identity: string(id), Since: r.Now().UTC()})
		}
		return w, nil // which counts the wrong code
	})
	return id, errors.Join(wrong, err)
}

// Pair makes an identity the operator's, which a person on the host said. Operator may be
// [person.Implicit] where nobody is configured.
func (r Roster) Pair(ctx context.Context, operator string, id person.Identity) error {
	return r.change(ctx, func(w person.Window) (person.Window, error) {
		return w, r.add(person.Paired{Operator: operator, Identity: string(id), Since: r.Now().UTC()})
	})
}

// Unpair takes an identity that was paired from whoever had it, and says who that was.
func (r Roster) Unpair(ctx context.Context, id person.Identity) (operator string, err error) {
	err = r.change(ctx, func(w person.Window) (person.Window, error) {
		have, err := r.paired()
		if err != nil {
			return w, err
		}
		left := slices.DeleteFunc(slices.Clone(have), func(p person.Paired) bool {
			if p.Identity == string(id) {
				operator = p.Operator
			}
			return p.Identity == string(id)
		})
		if len(left) == len(have) {
			return w, fmt.Errorf("%.160q was not paired: an identity of config.toml is taken back there", string(id))
		}
		return w, r.write(left)
	})
	return operator, err
}

// add is called with the lock held.
func (r Roster) add(p person.Paired) error {
	have, err := r.paired()
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(have, func(old person.Paired) bool { return old.Identity == p.Identity })
	if len(have) >= maxPaired {
		return fmt.Errorf("%d identities are paired already: remove some from %s", len(have), filepath.Join(r.Config, pairedName))
	}
	return r.write(append(have, p))
}

func (r Roster) write(paired []person.Paired) error {
	text, err := toml.Marshal(struct {
		Paired []person.Paired `toml:"paired"`
	}{paired})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Config, 0o700); err != nil {
		return err
	}
	return disk.Write(filepath.Join(r.Config, pairedName), append([]byte(head), text...), 0o600)
}

func (r Roster) window() (w person.Window, err error) {
	data, err := os.ReadFile(filepath.Join(r.State, windowName))
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err != nil {
		return person.Window{}, fmt.Errorf("the pairing that goes on cannot be read: %w", err)
	}
	return w, nil
}

// Pairing is the one that goes on, if any.
func (r Roster) Pairing() (w person.Window, open bool, err error) {
	w, err = r.window()
	return w, err == nil && w.Open(r.Now()), err
}

// change replaces the pairing while nobody else does.
func (r Roster) change(ctx context.Context, change func(person.Window) (person.Window, error)) (err error) {
	lock, err := disk.TakeLock(ctx, filepath.Join(r.State, lockName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	w, err := r.window()
	if err != nil {
		w = person.Window{} // it pairs nobody; a new one takes its place
	}
	if w, err = change(w); err != nil {
		return err
	}
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(r.State, windowName), data, 0o600)
}

// newCode draws a code; each letter is as likely as the others.
func newCode() string {
	code := make([]byte, 0, person.CodeLength)
	var random [1]byte
	for len(code) < person.CodeLength {
		_, _ = rand.Read(random[:]) // never fails
		if n := int(random[0]); n < 256/len(person.CodeLetters)*len(person.CodeLetters) {
			code = append(code, person.CodeLetters[n%len(person.CodeLetters)])
		}
	}
	return string(code)
}

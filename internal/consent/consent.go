// Package consent keeps what an operator has agreed to of plugins: which content, from
// where, and what it may reach. What is not on record has been agreed to by nobody.
package consent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/wire"
)

// Limits of the lock file.
const (
	lockFormat = 1
	maxLock    = 8 << 20 // bytes
	maxText    = 8 << 10 // bytes of any text in it
)

// Lock is what an operator has agreed to: state/plugins.json.
type Lock struct {
	Format  int                         `json:"format"`
	Plugins map[nacre.PluginName]*Entry `json:"plugins"`
}

// Entry is one plugin. Its source is empty where the folder was put there by hand.
type Entry struct {
	Source string `json:"source"`
	// Ref is the branch, tag or commit that an update follows; empty means the
	// source's own default.
	Ref     string  `json:"ref"`
	Current Version `json:"current"`
	// Previous is what rollback goes back to.
	Previous *Version `json:"previous,omitempty"`
}

// Version is one state of a plugin's folder, with what was agreed to for it.
type Version struct {
	Version string `json:"version"`
	// Commit is empty for what came from a folder.
	Commit string `json:"commit"`
	// Hash is pluginhost's, over every file: "sha256:…".
	Hash string `json:"hash"`
	// Folder is where it lies in the store; empty for one put there by hand.
	Folder    string    `json:"folder"`
	Confirmed time.Time `json:"confirmed_at"`
	Wants     Wants     `json:"wants"`
}

// Access is what the operator confirmed that a plugin may reach. The zero value
// is that of a plugin nobody was asked about: nothing.
type Access struct {
	// Confirmed says that there is a record of this very content.
	Confirmed   bool
	Hosts       []string
	Credentials []string
	// Project is "", "read" or "write".
	Project string
	Listen  bool
}

// Load reads the lock file; one that is missing holds nothing. What cannot
// be read whole and in one way is an error: then no plugin has been confirmed.
func Load(path string) (*Lock, error) {
	l := &Lock{Format: lockFormat, Plugins: map[nacre.PluginName]*Entry{}}
	data, err := disk.Read(path, maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		l, err = parseLock(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; put it right, or remove it and confirm each plugin again", path, err)
	}
	return l, nil
}

// IsCommit tells whether a text is the full name of a commit of git.
func IsCommit(text string) bool { return isHex(text, 40) || isHex(text, 64) }

// isHex tells whether a text is n hexadecimal digits, in small letters.
func isHex(text string, n int) bool {
	return len(text) == n && strings.Trim(text, "0123456789abcdef") == ""
}

func isHash(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	return ok && isHex(digits, 64)
}

func parseLock(data []byte) (*Lock, error) {
	if err := wire.Check(data, wire.Limits{Message: maxLock, String: maxText}); err != nil {
		return nil, err
	}
	var l Lock
	var version struct{ Format int }
	if json.Unmarshal(data, &version) == nil && version.Format > lockFormat {
		return nil, fmt.Errorf("format %d is of a newer nacre: this one reads %d", version.Format, lockFormat)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return nil, err
	}
	if l.Format != lockFormat || l.Plugins == nil {
		return nil, errors.New("format and plugins are missing")
	}
	for name, e := range l.Plugins {
		if _, err := nacre.ParsePluginName(string(name)); err != nil {
			return nil, err
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", name, err)
		}
	}
	return &l, nil
}

func (e *Entry) check() error {
	if e == nil {
		return errors.New("null is no plugin")
	}
	versions := []Version{e.Current}
	if e.Previous != nil {
		versions = append(versions, *e.Previous)
	}
	for _, v := range versions {
		switch {
		case !isHash(v.Hash):
			return fmt.Errorf("hash %.80q is none", v.Hash)
		case v.Commit != "" && !IsCommit(v.Commit):
			return fmt.Errorf("commit %.80q is none", v.Commit)
		case v.Folder != "" && !isHex(v.Folder, 16) || (v.Folder == "") != (e.Source == ""):
			return fmt.Errorf("folder %.80q is not one of the store", v.Folder)
		case reach(v.Wants.Project) > reach("write"):
			return fmt.Errorf("project %.40q is neither read nor write", v.Wants.Project)
		}
	}
	return nil
}

// Confirmed is what a plugin with this content may reach. One that is not on record gets the zero
// Access. One that is, with other content, is an error that says what to do: it must not be
// started.
func (l *Lock) Confirmed(name nacre.PluginName, hash string) (Access, error) {
	e := l.Plugins[name]
	if e == nil {
		return Access{}, nil
	}
	v := e.holds(hash)
	if v == nil {
		return Access{}, fmt.Errorf("plugin %s is not what was confirmed: its files have changed since; %s", name, e.remedy(name))
	}
	return Access{true, v.Wants.Hosts, v.Wants.Credentials, v.Wants.Project, v.Wants.Listen}, nil
}

// holds finds the version with this content: while a new one takes the old
// one's place, either may be found there.
func (e *Entry) holds(hash string) *Version {
	if e.Current.Hash == hash {
		return &e.Current
	}
	if e.Previous != nil && e.Previous.Hash == hash {
		return e.Previous
	}
	return nil
}

func (e *Entry) remedy(name nacre.PluginName) string {
	if e.Source == "" {
		return fmt.Sprintf("look at them, then run nacre plugin confirm %s", name)
	}
	return fmt.Sprintf("run nacre plugin update %s to have the source's own again, or nacre plugin confirm %s if the change is yours", name, name)
}

// save replaces the lock file whole, or not at all.
func (l *Lock) save(path string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if len(data) > maxLock {
		return fmt.Errorf("%s would hold %d bytes, at most %d: remove plugins", path, len(data), maxLock)
	}
	return disk.Write(path, append(data, '\n'), 0o600)
}

// Change lets one process at a time read, alter and save the lock file, and
// then do what the file says.
func Change(path string, alter func(*Lock) error, then func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	guard, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = guard.Close() }() // which unlocks
	if err := unix.Flock(int(guard.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	l, err := Load(path)
	if err != nil {
		return err
	}
	if err := alter(l); err != nil {
		return err
	}
	if err := l.save(path); err != nil {
		return err
	}
	return then()
}

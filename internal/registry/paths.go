// Package registry keeps nacre's places on disk and its sessions: which exist, who holds each, and
// what became of them. One process holds a session at a time, by a lock the kernel drops when the
// process dies. Whoever takes it next knows that the holder is gone.
//
// It starts and ends nothing itself.
package registry

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/hostpath"
)

// Paths are the folders of one installation, after the XDG base directory
// specification. Everything nacre writes is in State and Runtime.
type Paths struct {
	State   string `json:"state"`
	Config  string `json:"config"`
	Data    string `json:"data"`
	Runtime string `json:"runtime"`
}

// ResolvePaths reads the XDG variables through getenv and makes State and
// Runtime, mode 0700. A folder that belongs to somebody else is refused, and so is a
// relative path, which would be another folder wherever nacre is started.
func ResolvePaths(getenv func(string) string) (Paths, error) {
	p, err := NamedPaths(getenv)
	if err != nil {
		return Paths{}, err
	}
	if err := privateDir(p.State); err != nil {
		return Paths{}, fmt.Errorf("%w: make it yours (chown) and writable, with room on its disk, or set XDG_STATE_HOME", err)
	}
	if err := privateDir(p.Runtime); err != nil {
		return Paths{}, fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR", err)
	}
	return p, nil
}

// NamedPaths are those that the XDG variables name, whether or not they are there.
func NamedPaths(getenv func(string) string) (Paths, error) {
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"} {
		if dir := getenv(name); dir != "" && !filepath.IsAbs(dir) {
			return Paths{}, fmt.Errorf("%s is %q: set it to an absolute path", name, dir)
		}
	}
	home, state, config, data := getenv("HOME"), getenv("XDG_STATE_HOME"), getenv("XDG_CONFIG_HOME"), getenv("XDG_DATA_HOME")
	if home == "" && (state == "" || config == "" || data == "") {
		return Paths{}, errors.New("HOME is not set: set it, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_DATA_HOME")
	}
	p := Paths{
		State:  hostpath.State(getenv),
		Config: filepath.Join(orElse(config, filepath.Join(home, ".config")), "nacre"),
		Data:   filepath.Join(orElse(data, filepath.Join(home, ".local/share")), "nacre"),
	}
	if runtime := getenv("XDG_RUNTIME_DIR"); runtime != "" {
		p.Runtime = filepath.Join(runtime, "nacre")
	} else {
		p.Runtime = filepath.Join(os.TempDir(), "nacre-"+strconv.Itoa(os.Getuid()))
	}
	return p, nil
}

// Audit is the root of the audit chains.
func (p Paths) Audit() string { return filepath.Join(p.State, "audit") }

// Keys holds the signing and token keys, mode 0600.
func (p Paths) Keys() string { return filepath.Join(p.State, "keys") }

// Sessions holds one folder per session.
func (p Paths) Sessions() string { return filepath.Join(p.State, "sessions") }

// Session is the folder of one session.
func (p Paths) Session(id nacre.SessionID) string { return filepath.Join(p.Sessions(), string(id)) }

// Events is what a session told the person before it.
func (p Paths) Events(id nacre.SessionID) string { return filepath.Join(p.Session(id), "events.jsonl") }

// unsettled holds a file per session that may have left something.
func (p Paths) unsettled() string { return filepath.Join(p.State, "unsettled") }

// Receipt is the signed account of one session's run.
func (p Paths) Receipt(id nacre.SessionID) string {
	return filepath.Join(p.State, "receipts", string(id)+".receipt")
}

// Memory is a group's memory file (D-40).
func (p Paths) Memory(g nacre.Group) string {
	return filepath.Join(p.State, "memory", string(g)+".sqlite")
}

// Group is the folder of what a group keeps: its workspace and its conversations (D-36).
func (p Paths) Group(g nacre.Group) string { return filepath.Join(p.State, "groups", string(g)) }

// Homes holds what agents may leave for their next session, a folder for each group (U-03).
func (p Paths) Homes() string { return filepath.Join(p.State, "homes") }

// Logins holds nacre's own logins with vendors, mode 0600 (U-02). No session sees it.
func (p Paths) Logins() string { return filepath.Join(p.State, "logins") }

// Messages holds those that were taken and not dealt with, one folder for each nacre serve.
func (p Paths) Messages() string { return filepath.Join(p.State, "messages") }

// PluginData is where plugins keep their data, one folder each (D-21).
func (p Paths) PluginData() string { return filepath.Join(p.State, "data") }

// Engine is the database of durable work.
func (p Paths) Engine() string { return filepath.Join(p.State, "engine.sqlite") }

// EventsSocket is where a daemon's events can be subscribed to (D-32). The
// daemon's name is one path element.
func (p Paths) EventsSocket(daemon string) string {
	return filepath.Join(p.Runtime, eventsPrefix+daemon+socketSuffix)
}

// EventsSockets are those of all daemons, dead ones too, sorted.
func (p Paths) EventsSockets() ([]string, error) {
	entries, err := os.ReadDir(p.Runtime)
	if err != nil {
		return nil, err
	}
	var sockets []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), eventsPrefix) && strings.HasSuffix(e.Name(), socketSuffix) {
			sockets = append(sockets, filepath.Join(p.Runtime, e.Name()))
		}
	}
	return sockets, nil
}

// PublisherSocket is where a publisher that is configured with "ipc" connects to.
func (p Paths) PublisherSocket(name string) string {
	return filepath.Join(p.Runtime, "publish-"+name+socketSuffix)
}

const (
	eventsPrefix = "events-"
	socketSuffix = ".sock"
)

// privateDir makes dir, or checks that it is ours alone.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || stat.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s is not a folder of yours", dir)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("make %s private: %w", dir, err)
		}
	}
	return nil
}

// SocketRoom makes a folder with a short, unpredictable name for one session's
// sockets: a unix socket's path holds 108 bytes. "door" below it is mounted
// into the sandbox; what lies beside it is not.
func (p Paths) SocketRoom() (string, error) {
	room := filepath.Join(p.Runtime, randomName(8))
	if len(room) > maxSocketRoom {
		return "", fmt.Errorf("%s is too long for unix sockets: set XDG_RUNTIME_DIR to a shorter path", p.Runtime)
	}
	if err := os.Mkdir(room, 0o700); err != nil {
		return "", err
	}
	return room, nil
}

// maxSocketRoom leaves room for "/door/egress.sock" below the 108 bytes of sun_path.
const maxSocketRoom = 88

// NewID makes a session id that a person can type: six characters.
func NewID() nacre.SessionID { return nacre.SessionID(randomName(6)) }

// OrNew is the id, or a new one where none was given.
func OrNew(id nacre.SessionID) nacre.SessionID {
	if id == "" {
		return NewID()
	}
	return id
}

func randomName(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process instead
	text := strings.ToLower(base32.StdEncoding.EncodeToString(raw))
	return "k" + text[:n-1]
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

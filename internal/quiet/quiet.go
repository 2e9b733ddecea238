// Package quiet remembers for which groups a memory was read whole and no plugin is started,
// so that a command does without both until its agent calls something.
package quiet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
)

const (
	// maxQuiet is the longest file of what was quiet, in bytes, and maxQuietGroups how
	// many groups it tells of.
	maxQuiet = 64 << 10
)

const (
	maxQuietGroups = 100
)

const (
	// maxQuietFiles is how many files plugins may have to be looked at from outside.
	maxQuietFiles = 1000
)

const (
	// Longest is how long a memory is not read whole again, however long it rests.
	Longest = 24 * time.Hour
)

const (
	// bootID changes with every start of the machine.
	bootID = "/proc/sys/kernel/random/boot_id"
)

// State says that a group's memory was read whole and that none of its plugins is
// started, so that opening them finds nothing to do, to tell or to refuse. It counts
// while all that they are read from looks the same, on a machine that was not started
// again, and until something in the memory is due.
type State struct {
	Looks string    `json:"looks"`
	Until time.Time `json:"until"`
	// Silent says that the memory tells an agent nothing before it starts.
	Silent bool `json:"silent,omitempty"`
}

// quietFile keeps what is quiet, by group.
func quietFile(inst *installation.Installation) string {
	return filepath.Join(inst.Registry.Paths().State, "quiet.json")
}

// readQuiet reads what was quiet. Of a missing or damaged file that is nothing.
func readQuiet(inst *installation.Installation) map[nacre.Group]State {
	known := map[nacre.Group]State{}
	f, err := os.Open(quietFile(inst))
	if err != nil {
		return known
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxQuiet))
	if err != nil || json.Unmarshal(text, &known) != nil {
		return map[nacre.Group]State{}
	}
	return known
}

// Is tells whether what looks so was quiet, and for a session that briefs its agent also silent.
func Is(inst *installation.Installation, group nacre.Group, looks string, briefs bool) bool {
	if looks == "" {
		return false
	}
	known := readQuiet(inst)[group]
	left := known.Until.Sub(inst.Options.Now())
	return known.Looks == looks && left > 0 && left <= Longest && // more is left where the clock was set back
		(!briefs || known.Silent)
}

// Keep remembers that what looks so is quiet. Where that cannot be kept it is
// found out again.
func Keep(inst *installation.Installation, group nacre.Group, now State) {
	known := readQuiet(inst)
	if len(known) >= maxQuietGroups {
		known = map[nacre.Group]State{}
	}
	known[group] = now
	text, err := json.Marshal(known)
	if err == nil && len(text) < maxQuiet {
		_ = disk.Write(quietFile(inst), text, 0o600)
	}
}

// LooksOf is a digest of how everything looks from outside that a call of the group can
// reach: the memory's file, the plugins' folders, and what decides about them. It is
// empty where that does not tell, such as while somebody else has the memory open.
// lock is the file of what was agreed to about plugins, folders are where they lie.
func LooksOf(inst *installation.Installation, group nacre.Group, lock string, folders []string) string {
	if len(inst.Config.Access) > 0 || inst.Config.Plugins[memory.Plugin] != nil {
		return "" // names what lies elsewhere, and may have to be told of
	}
	paths := inst.Registry.Paths()
	v := view{before: time.Now().Add(-inst.Settled)}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return ""
	}
	v.say("%s %q %d %s", inst.Options.Version, group, os.Geteuid(), boot)
	v.file(inst.Options.Executable, true)
	v.file(filepath.Join(paths.Config, "config.toml"), false)
	v.file(lock, false)
	if store := inst.Registry.Store(); store != nil {
		v.say("store %q", store.Installation()) // whichever machine opens a memory there does what is due
	} else {
		v.database(paths.Memory(group))
	}
	for _, dir := range folders {
		v.tree(dir)
	}
	if v.unclear {
		return ""
	}
	digest := sha256.Sum256([]byte(v.text.String()))
	return hex.EncodeToString(digest[:])
}

// view looks at files from outside.
type view struct {
	text    strings.Builder
	before  time.Time // after which nothing may have changed
	files   int
	unclear bool
}

func (v *view) say(format string, values ...any) { _, _ = fmt.Fprintf(&v.text, format+"\n", values...) }

// file looks at a file, and at where a link to one leads.
func (v *view) file(path string, required bool) {
	info, err := os.Stat(path)
	switch {
	case err == nil:
		v.info(path, info)
	case required || !errors.Is(err, fs.ErrNotExist):
		v.unclear = true
	default:
		v.say("%q none", path)
	}
}

func (v *view) info(path string, info fs.FileInfo) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() && !info.IsDir() {
		v.unclear = true
		return
	}
	changed := disk.ChangeTime(stat)
	if v.files++; v.files > maxQuietFiles || changed.After(v.before) || info.ModTime().After(v.before) {
		v.unclear = true
	}
	v.say("%q %v %d %d %d %d %d %d", path, info.Mode(), stat.Uid, stat.Dev, stat.Ino, info.Size(), info.ModTime().UnixNano(), changed.UnixNano())
}

// database looks at a file of SQLite's that nobody has open, and that can be written.
func (v *view) database(path string) {
	for _, beside := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(path + beside); !errors.Is(err, fs.ErrNotExist) {
			v.unclear = true
		}
	}
	if info, err := os.Lstat(path); err == nil {
		v.info(path, info)
	} else {
		v.unclear = true
	}
	for what, mode := range map[string]uint32{path: unix.R_OK | unix.W_OK, filepath.Dir(path): unix.W_OK | unix.X_OK} {
		if unix.Faccessat(unix.AT_FDCWD, what, mode, unix.AT_EACCESS) != nil {
			v.unclear = true
		}
	}
}

// tree looks at everything below a folder.
func (v *view) tree(dir string) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		v.say("%q none", dir)
		return
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if v.info(path, info); v.unclear {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		v.unclear = true
	}
}

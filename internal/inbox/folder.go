package inbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxFile is the largest file that is a message, in bytes.
	maxFile = 1 << 20
	// kept and damaged end the names of files: of messages, and of what was one.
	kept, damaged = ".json", ".damaged"
	// known is the folder of the ids of messages that may come once and were dealt with. No
	// process has its name.
	known = ".known"
	// maxKnown is how many of them are kept, until the older half is forgotten.
	maxKnown = 20_000
	// unwritten begins the names of files that are being written.
	unwritten = ".new-"
	// folderLook is how often a process looks for what others left in their folders.
	folderLook = time.Second
)

// folder keeps messages as files: root is that of all processes, self this one's.
type folder struct {
	root, self string
	// moving is held while messages move: one that comes again must be found at its old place
	// or its new one.
	moving *sync.Mutex
}

// file is the name of its file: names are in the order in which messages were taken.
func (m Message) file() string { return fmt.Sprintf("%020d-%s%s", m.Taken.UnixNano(), m.ID, kept) }

// over is never closed: whose process is alive has its files.
func (folder) over() <-chan struct{} { return nil }

func (folder) every() time.Duration { return folderLook }

// strays are none: whether a file is there is no question.
func (folder) strays([]string) ([]string, error) { return nil, nil }

func (folder) adopt(string) (m Message, found bool, err error) { return m, false, nil }

func (f folder) close(empty bool) error {
	if empty {
		_ = os.Remove(f.self) // what is no message stays, and its folder with it
	}
	return nil
}

// remove leaves the id of a message before the message goes: whoever looks for one that
// comes again finds either.
func (f folder) remove(m Message, leave bool) error {
	if leave && m.Once {
		if err := f.leave(m.ID); err != nil {
			return err
		}
	}
	if err := gone(os.Remove(filepath.Join(f.self, m.file()))); err != nil {
		return err
	}
	return disk.SyncDir(f.self)
}

func (f folder) take(alive func(holder string) bool) (taken []Message, err error) {
	f.moving.Lock()
	defer f.moving.Unlock()
	holders, err := os.ReadDir(f.root)
	if err != nil {
		return nil, err
	}
	errs := []error{f.prune()}
	for _, h := range holders {
		dir := filepath.Join(f.root, h.Name())
		if !h.IsDir() || h.Name() == known || dir == f.self || alive(h.Name()) {
			continue
		}
		of, err := f.takeFrom(dir)
		taken, errs = append(taken, of...), append(errs, err)
	}
	return taken, errors.Join(errs...)
}

// write puts a message there whole, and for a power cut too.
func (f folder) write(m Message) error {
	f.moving.Lock()
	defer f.moving.Unlock()
	if m.Once && m.Begun == 0 {
		if here, err := f.has(m.ID); err != nil || here {
			return cmp.Or(err, ErrRepeated)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	made := filepath.Join(f.self, unwritten+m.ID)
	file, err := os.OpenFile(made, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(made, filepath.Join(f.self, m.file()))
	}
	if err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return disk.SyncDir(f.self)
}

// has tells whether a message was here before: it is some process's, or it was dealt with.
func (f folder) has(id string) (bool, error) {
	holders, err := os.ReadDir(f.root)
	if err != nil {
		return false, err
	}
	for _, h := range holders {
		files, err := os.ReadDir(filepath.Join(f.root, h.Name()))
		if !h.IsDir() || h.Name() == known || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, file := range files {
			if strings.HasSuffix(file.Name(), "-"+id+kept) && !strings.HasPrefix(file.Name(), unwritten) {
				return true, nil
			}
		}
	}
	_, err = os.Lstat(filepath.Join(f.root, known, id))
	return err == nil, gone(err)
}

// leave keeps the id of a message, so that it is known when it comes again.
func (f folder) leave(id string) error {
	dir := filepath.Join(f.root, known)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), disk.SyncDir(dir), disk.SyncDir(f.root))
}

// prune forgets the older half of the ids where there are too many.
func (f folder) prune() error {
	dir := filepath.Join(f.root, known)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) <= maxKnown {
		return gone(err)
	}
	age := make(map[string]time.Time, len(files))
	for _, file := range files {
		if info, err := file.Info(); err == nil { // else it is gone
			age[file.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b fs.DirEntry) int { return age[a.Name()].Compare(age[b.Name()]) })
	for _, file := range files[:len(files)-maxKnown/2] {
		err = errors.Join(err, gone(os.Remove(filepath.Join(dir, file.Name()))))
	}
	return err
}

// Sessions are those of all messages that are kept in a folder of boxes, whoever has them:
// each of them is begun, or carried on, unless it is given up.
func Sessions(root string) (map[nacre.SessionID]bool, error) {
	sessions := map[nacre.SessionID]bool{}
	for range 2 { // a message that moves while it is looked for is found at its new place
		holders, err := os.ReadDir(root)
		if gone(err) != nil {
			return nil, err
		}
		for _, h := range holders {
			if !h.IsDir() || h.Name() == known {
				continue
			}
			if err := sessionsIn(filepath.Join(root, h.Name()), sessions); err != nil {
				return nil, err
			}
		}
	}
	return sessions, nil
}

// sessionsIn adds those of the messages in one process's folder. What is no message has none.
func sessionsIn(dir string, sessions map[nacre.SessionID]bool) error {
	files, err := os.ReadDir(dir)
	if gone(err) != nil {
		return err
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), kept) {
			continue
		}
		m, err := read(filepath.Join(dir, file.Name()))
		var system *fs.PathError
		switch {
		case err == nil:
			sessions[m.Session] = true
		case errors.As(err, &system) && gone(err) != nil:
			return err
		}
	}
	return nil
}

func read(path string) (m Message, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return m, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return m, errors.New("it is no message")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, err
	}
	if err := m.check(); err != nil {
		return m, err
	}
	if m.file() != filepath.Base(path) {
		return m, errors.New("it is another message than its name says")
	}
	return m, nil
}

func (f folder) takeFrom(dir string) (taken []Message, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, gone(err)
	}
	var errs []error
	for _, entry := range files {
		path := filepath.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), unwritten):
			errs = append(errs, gone(os.Remove(path))) // nobody was told that it was taken
		case strings.HasSuffix(entry.Name(), kept):
			m, ok, err := f.takeOne(path)
			errs = append(errs, err)
			if ok {
				taken = append(taken, m)
			}
		}
	}
	if len(taken) > 0 {
		errs = append(errs, disk.SyncDir(f.self), gone(disk.SyncDir(dir)))
	}
	_ = os.Remove(dir) // where something is left, it stays
	return taken, errors.Join(errs...)
}

// take makes one message this process's, unless another one was faster.
func (f folder) takeOne(path string) (Message, bool, error) {
	m, err := read(path)
	var system *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, false, nil
	case errors.As(err, &system):
		return m, false, err
	case err != nil:
		return m, false, errors.Join(fmt.Errorf("a message is lost: %s cannot be read: %w", path, err), gone(os.Rename(path, path+damaged)))
	}
	if err := os.Rename(path, filepath.Join(f.self, m.file())); err != nil {
		return m, false, gone(err)
	}
	return m, true, nil
}

// gone is no error where another process was faster.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

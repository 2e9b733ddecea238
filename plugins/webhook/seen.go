package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Limits of what was seen. At their rates, all hooks together publish fewer
// messages in two windows than are kept.
const (
	maxSeen  = 20_000 // ids, until the older half is forgotten
	keptSeen = maxSeen / 2
	idLength = 64
)

// seen is the messages that were taken, on disk, so that a restart forgets none.
// Two processes may use one file, while a plugin is reloaded. Each line is + or -
// and an id: taken, and given back.
type seen struct {
	mu     sync.Mutex
	path   string
	file   *os.File
	offset int64 // up to where the file was read
	ids    map[string]bool
	order  []string
}

func openSeen(path string) (*seen, error) {
	s := &seen{path: path}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, s.locked(s.refresh)
}

func (s *seen) open() error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // it was replaced
	}
	s.file, s.offset, s.ids, s.order = file, 0, map[string]bool{}, nil
	return nil
}

func (s *seen) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

// locked holds the lock of the file that has the name now.
func (s *seen) locked(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := syscall.Flock(int(s.file.Fd()), syscall.LOCK_EX); err != nil {
			return err
		}
		ours, err := s.file.Stat()
		if err != nil {
			return err
		}
		if now, err := os.Stat(s.path); err == nil && os.SameFile(ours, now) {
			break
		}
		if err := s.open(); err != nil { // another process has written it anew
			return err
		}
	}
	err := do()
	return errors.Join(err, syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN))
}

// take reports whether an id is new, and from then on it is not. It returns
// when that is on disk.
func (s *seen) take(id string) (fresh bool, err error) {
	err = s.locked(func() error {
		if err := s.refresh(); err != nil || s.ids[id] {
			return err
		}
		fresh = true
		if err := s.note('+', id); err != nil {
			return err
		}
		if len(s.order) > maxSeen {
			return s.compact()
		}
		return nil
	})
	return fresh && err == nil, err
}

// giveBack lets an id come again: its message was not taken after all.
func (s *seen) giveBack(id string) error {
	return s.locked(func() error {
		if err := s.refresh(); err != nil {
			return err
		}
		return s.note('-', id)
	})
}

func (s *seen) note(sign byte, id string) error {
	line := fmt.Appendf(nil, "%c%s\n", sign, id)
	if _, err := s.file.Write(line); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return s.refresh()
}

// refresh reads what was written since. A line that was torn is passed over.
func (s *seen) refresh() error {
	data, err := io.ReadAll(io.NewSectionReader(s.file, s.offset, 1<<62))
	if err != nil {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' { // whoever wrote it is gone, since the lock is ours
		if _, err := s.file.Write([]byte("\n")); err != nil {
			return err
		}
		data = append(data, '\n')
	}
	s.offset += int64(len(data))
	for line := range bytes.Lines(data) {
		s.apply(bytes.TrimSuffix(line, []byte("\n")))
	}
	return nil
}

func (s *seen) apply(line []byte) {
	if len(line) != 1+idLength {
		return
	}
	id := string(line[1:])
	switch {
	case line[0] == '-':
		delete(s.ids, id)
	case !s.ids[id]:
		s.ids[id] = true
		s.order = append(s.order, id)
	}
}

// compact writes the newer half anew, whole or not at all.
func (s *seen) compact() error {
	var text bytes.Buffer
	for _, id := range s.order[len(s.order)-keptSeen:] {
		if s.ids[id] {
			text.WriteString("+" + id + "\n")
		}
	}
	temporary := s.path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text.Bytes())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, s.path); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	return s.refresh()
}

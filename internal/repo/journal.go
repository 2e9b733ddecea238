package repo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// JournalFile is in a StateDir while a landing is under way: its Intent, in JSON.
const JournalFile = "landing.json"

// maxJournal is the longest journal that is read, in bytes.
const maxJournal = 64 << 10

// journal is a landing under way, in the session's state directory. It is
// written before anything of the user's changes and removed when all has.
type journal struct {
	Intent
	// Token names the landing's lock and temporary files.
	Token string `json:"token,omitempty"`
	// Index is the user's index as the landing found it: as long as it is that, what is
	// staged is no work of somebody who moved on.
	Index string `json:"index,omitempty"`
	// Live says that the files stay as they are.
	Live bool `json:"live,omitempty"`
	// GitDir and Top are where it happens.
	GitDir string `json:"git_dir"`
	Top    string `json:"top"`
}

// journals are where the landings of a session are noted, one at a time.
type journals struct {
	of  place
	dir string // the session's state directory
}

func (s journals) journalPath() string { return filepath.Join(s.dir, JournalFile) }

func (s journals) write(j journal) error {
	j.GitDir, j.Top = s.of.gitDir, s.of.top
	data, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("landing journal: %w", err)
	}
	return disk.Write(s.journalPath(), data, 0o600)
}

func (s journals) forget() error {
	if err := ignoreMissing(os.Remove(s.journalPath())); err != nil {
		return fmt.Errorf("landing journal: %w", err)
	}
	return disk.SyncDir(s.dir)
}

// readJournal returns ok = false where nothing was interrupted. A damaged
// journal is an error, never "nothing".
func (s journals) readJournal() (j journal, ok bool, err error) {
	data, err := readSmall(s.journalPath(), maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return j, false, nil
	}
	if err != nil {
		return j, false, fmt.Errorf("landing journal: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return j, false, fmt.Errorf("landing journal %s is damaged: %w; look at `git status`, then remove it", s.journalPath(), err)
	}
	_, badSession := nacre.ParseSessionID(string(j.Session))
	_, badNew := ParseCommit(string(j.New))
	if err := errors.Join(badSession, badNew); err != nil {
		return j, false, fmt.Errorf("landing journal %s is damaged: %w; look at `git status`, then remove it", s.journalPath(), err)
	}
	if j.GitDir != s.of.gitDir || j.Top != s.of.top {
		return j, false, fmt.Errorf("landing journal %s is of %s: open that project", s.journalPath(), j.Top)
	}
	return j, true, nil
}

// Recover completes a landing that a crash interrupted after its ref had
// moved, and cleans up after one whose ref had not. It returns nil where there
// is nothing to complete. It may be called again after any crash of its own.
func (p *Project) Recover(ctx context.Context) (*Landed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recover(ctx)
}

func (p *landing) recover(ctx context.Context) (*Landed, error) {
	j, ok, err := p.journals.readJournal()
	if err != nil || !ok {
		return nil, err
	}
	have, err := p.readRef(ctx, j.Ref)
	if err != nil {
		return nil, err
	}
	if have == j.Old {
		// Never moved: the lock is all that was left behind.
		return nil, errors.Join(p.unlockIndex(j.Token), p.journals.forget())
	}
	landed := &Landed{Session: j.Session, Ref: j.Ref, Commit: j.New, Files: j.Files}
	if !j.Files {
		return landed, p.journals.forget()
	}
	if have != j.New {
		// The user moved on: their files and index are theirs.
		landed.Files = false
		return landed, errors.Join(p.unlockIndex(j.Token), p.journals.forget())
	}
	if landed.Left, err = p.completeHere(ctx, j); err != nil {
		return nil, fmt.Errorf("complete the landing of session %s: %w", j.Session, err)
	}
	return landed, nil
}

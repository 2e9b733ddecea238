package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

const (
	// settle is how long a server may take to show an issue whose filing got no answer.
	settle = time.Minute
	// forgotten is when a report that got no answer stops to matter.
	forgotten = 24 * time.Hour
	lockWait  = 20 * time.Second
	lockPoll  = 20 * time.Millisecond
)

// once keeps the time at which a report was sent, until its answer is there.
type once struct {
	file *os.File
	now  func() time.Time
}

// openOnce locks a report: two handlers do not file the same one at a time.
func openOnce(ctx context.Context, dir, marker string, now func() time.Time) (*once, func(), error) {
	sum := sha256.Sum256([]byte(marker))
	forget(dir, now())
	path := filepath.Join(dir, "sent-"+hex.EncodeToString(sum[:16]))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return &once{f, now}, func() { _ = f.Close() }, nil // which unlocks
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(f.Close(), &plugin.ToolError{Code: "BUSY", Message: "The same report is being filed: try again in a minute", Retriable: true})
		case <-time.After(lockPoll):
		}
	}
}

// forget removes what is too old to matter; whoever still holds one keeps it.
func forget(dir string, now time.Time) {
	sent, _ := filepath.Glob(filepath.Join(dir, "sent-*")) // the form is right
	for _, path := range sent {
		if info, err := os.Lstat(path); err == nil && now.Sub(info.ModTime()) > forgotten {
			_ = os.Remove(path) // the next one tries again
		}
	}
}

// begin is written before a report is sent, and is durable by then.
func (o *once) begin() error {
	text, err := o.now().UTC().MarshalText()
	if err != nil {
		return err
	}
	if _, err := o.file.WriteAt(text, 0); err != nil {
		return err
	}
	return errors.Join(o.file.Truncate(int64(len(text))), o.file.Sync())
}

// end is for an answer that settles whether there is an issue.
func (o *once) end() error { return o.file.Truncate(0) }

// unsettled tells of a report that was sent and may still appear.
func (o *once) unsettled() (bool, error) {
	text, err := os.ReadFile(o.file.Name())
	if errors.Is(err, fs.ErrNotExist) || len(text) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var sent time.Time
	if sent.UnmarshalText(text) != nil {
		return true, o.begin() // cut off while it was written: just before it was sent
	}
	age := o.now().Sub(sent)
	return age < settle && age > -settle, nil
}

package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/redact"
)

const (
	// maxLog is the size at which the log of refusals begins anew, in bytes; the
	// one before is kept beside it.
	maxLog = 1 << 20
	// maxLogged is how much of a text the log keeps, in bytes.
	maxLogged = 1 << 10
)

// Refusal is one call that a hook refused, as the log keeps it: without secrets
// and cut to a size. The agent's user can write the log: it is no audit.
type Refusal struct {
	Time   time.Time `json:"time"`
	Role   string    `json:"role,omitempty"`
	Tool   string    `json:"tool,omitempty"`
	Dir    string    `json:"dir,omitempty"`
	Reason string    `json:"reason"`
}

// LogFile is where the refusals of a user's hooks are kept.
func (h Home) LogFile() string { return filepath.Join(h.State, "hooks", "refused.jsonl") }

func record(path string, r Refusal) error {
	for _, text := range []*string{&r.Role, &r.Tool, &r.Dir, &r.Reason} {
		clean, _ := redact.New().String(*text)
		*text = clip(clean, maxLogged)
	}
	entry, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// a pipe or a link in the log's place must not hold up the answer
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(entry, '\n'))
	return errors.Join(err, f.Close())
}

// Refusals are the last calls that hooks refused, the newest last. Lines that
// cannot be read are left out.
func Refusals(path string, last int) ([]Refusal, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the log of refusals: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, 2*maxLog))
	if err != nil {
		return nil, fmt.Errorf("the log of refusals: %w", err)
	}
	var list []Refusal
	for line := range bytes.Lines(data) {
		var r Refusal
		if json.Unmarshal(line, &r) == nil && r.Reason != "" {
			list = append(list, r)
		}
	}
	return list[max(0, len(list)-last):], nil
}

// clip cuts a text to so many bytes, between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

//go:build linux

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// recordDir holds one file per running sandbox, below the state directory.
	recordDir = "sandboxes"
	// maxRecord is the largest record read, in bytes.
	maxRecord = 64 << 10
	// orphanTimeout is how long a killed orphan may take to be gone.
	orphanTimeout = 5 * time.Second
)

// record says how to find a sandbox again, and who watches over it.
type record struct {
	Label   string   `json:"label"`
	Process Identity `json:"process"`
	Keeper  Identity `json:"keeper"`
	Groups  []string `json:"groups,omitempty"`
}

func writeRecord(stateDir, label string, pid int, groups []string) (string, error) {
	dir := filepath.Join(stateDir, recordDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	process, err := Identify(pid)
	if err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	keeper, err := Identify(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	text, err := json.Marshal(record{label, process, keeper, groups})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, label+"-"+strconv.Itoa(pid)+".json")
	partial := name + ".partial"
	if err := os.WriteFile(partial, text, 0o600); err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	return name, os.Rename(partial, name)
}

// EndOrphans kills the sandboxes recorded in stateDir whose nacre is gone, and
// returns their labels (M-16). Sandboxes that are being watched are left alone.
func EndOrphans(stateDir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(stateDir, recordDir, "*"))
	if err != nil {
		return nil, err
	}
	var ended []string
	var failures []error
	for _, file := range files {
		label, err := endOrphan(file)
		if err != nil {
			failures = append(failures, fmt.Errorf("orphan %s: %w", filepath.Base(file), err))
		} else if label != "" {
			ended = append(ended, label)
		}
	}
	return ended, errors.Join(failures...)
}

func endOrphan(file string) (string, error) {
	r, err := readRecord(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if r.Keeper.Lives() {
		return "", nil
	}
	found, err := r.Process.kill()
	if err != nil {
		return "", err
	}
	for _, dir := range r.Groups {
		if groupForm().MatchString(filepath.Base(dir)) {
			removeGroup(dir)
		}
	}
	if err := os.Remove(file); err != nil || !found {
		return "", err
	}
	return r.Label, nil
}

var groupForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^nacre-[0-9]+-[0-9]+$`) })

func readRecord(file string) (record, error) {
	var r record
	if strings.HasSuffix(file, ".partial") {
		return r, os.ErrNotExist // its writer is still at it, or died before the sandbox had a plan
	}
	info, err := os.Lstat(file)
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return r, errors.New("not a record: remove it")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("not a record, remove it: %w", err)
	}
	if r.Process.Pid <= 1 || r.Keeper.Pid <= 0 {
		return r, errors.New("not a record: remove it")
	}
	return r, nil
}

// kill ends the process, if it is still that one, and waits until it is gone.
func (i Identity) kill() (found bool, err error) {
	fd, err := unix.PidfdOpen(i.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	if !i.Lives() { // checked while the descriptor pins whatever has the number
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, err
	}
	return true, waitEnd(fd)
}

// waitEnd waits until the process behind the descriptor has ended.
func waitEnd(pidfd int) error {
	deadline := time.Now().Add(orphanTimeout)
	for {
		left := time.Until(deadline).Milliseconds()
		if left <= 0 {
			return fmt.Errorf("it is still there %s after SIGKILL", orphanTimeout)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n == 1 {
			return nil
		}
	}
}

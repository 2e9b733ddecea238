package work

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// canRecord refuses a file that is there already, or a folder that is not,
// before anything is begun.
func canRecord(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return config.Errorf("--record %s: the file is there already; name another", path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return config.Errorf("--record: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return config.Errorf("--record %s: there is no folder %s", path, filepath.Dir(path))
	}
	return nil
}

// keepRecording writes what the brain chose, without secrets, for replay. It
// replaces nothing.
func keepRecording(s *seal.Session, path string, r *brain.Recorder, spec task.Spec, report *Report) error {
	if path == "" || !r.Begun() {
		return nil
	}
	data, err := r.Recording(title(spec.Task), spec.Task, func(line json.RawMessage) (json.RawMessage, error) {
		clean, _, err := s.Inst.Redact.JSON(line)
		return clean, err
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return config.Errorf("--record: %w", err)
	}
	_, err = f.Write(data)
	report.Recorded, report.Unrecorded = path, strings.Join(r.Left(), ", ")
	return errors.Join(err, f.Close())
}

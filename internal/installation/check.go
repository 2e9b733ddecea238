package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// CheckFile keeps, in a session's folder, the check at which its latest work failed.
const CheckFile = "failed-check.json"

// KeepFailedCheck keeps the check that failed in a session's folder dir. Where none
// failed, the one of earlier work goes.
func KeepFailedCheck(dir string, checks []nacre.CheckResult) error {
	path := filepath.Join(dir, CheckFile)
	at := slices.IndexFunc(checks, func(c nacre.CheckResult) bool { return !c.Passed() })
	if at < 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(checks[at])
	if err != nil {
		return err
	}
	return disk.Write(path, data, 0o600)
}

// FailedCheck reads what [KeepFailedCheck] kept in dir; nil where nothing was kept.
func FailedCheck(dir string) (*nacre.CheckResult, error) {
	path := filepath.Join(dir, CheckFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // most sessions have none
	}
	if err != nil {
		return nil, err
	}
	var c nacre.CheckResult
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return &c, nil
}

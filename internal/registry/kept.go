package registry

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

// What a session's folder holds.
const (
	// SpecFile keeps what a run was asked to do, so that it can go on.
	SpecFile = "run.json"
	// ResultFile keeps what its latest run came to.
	ResultFile = "result.json"
	// CheckFile keeps the check at which its latest work failed.
	CheckFile = "failed-check.json"
	// AuditFile keeps what an auditor decided of its work.
	AuditFile = "audit.json"
	// PackagesDir holds what was fetched for its verifiers.
	PackagesDir = "packages"
	// RoleDir holds the files that its agent is given to read.
	RoleDir = "role"
	// PinsDir holds its copies of the files that calls name.
	PinsDir = "pins"
)

// KeepResult keeps what a run came to in its session's folder dir.
func KeepResult(dir string, result nacre.RunResult) error {
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, ResultFile), data, 0o600)
}

// Keep writes what is kept of a session into a file of its folder, as JSON that a person can read.
func Keep(dir, file string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, file), data, 0o600)
}

// Result reads what [KeepResult] kept in dir; nil where nothing was kept.
func Result(dir string) (*nacre.RunResult, error) {
	path := filepath.Join(dir, ResultFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a session that runs, or is no run, has none
	}
	if err != nil {
		return nil, err
	}
	var r nacre.RunResult
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return &r, nil
}

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

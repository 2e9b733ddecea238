package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// ResultFile keeps, in a session's folder, what its latest run came to.
const ResultFile = "result.json"

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

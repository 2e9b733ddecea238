package hostpath

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// worked has, in nacre's own folder, a file for each folder that was an agent's project, named by the digest of its path. The
// file holds the path; one that an earlier nacre made is empty.
func worked(state, project string) string {
	digest := sha256.Sum256([]byte(project))
	return filepath.Join(state, "worked", hex.EncodeToString(digest[:16]))
}

// Work remembers that an agent works on a project, before it begins: what lies there may be an agent's
// from now on. So may what lies in the repository around it, where work lands.
func Work(state, project string) error {
	if project == "" {
		return nil
	}
	for _, folder := range Repositories(project) {
		if err := remember(state, folder); err != nil {
			return err
		}
	}
	return nil
}

// Repositories are a folder and each one above it that is the top of a repository.
func Repositories(folder string) []string {
	found := []string{folder}
	for at := filepath.Dir(folder); at != folder; folder, at = at, filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			found = append(found, at)
		}
	}
	return found
}

func remember(state, folder string) error {
	file := worked(state, folder)
	if info, err := os.Lstat(file); err == nil && info.Size() > 0 {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(file, []byte(folder), 0o600) //nolint:gosec // below nacre's own state, by a digest
}

// ForgetWorked forgets the projects whose folders are gone. Where the folder above one is gone as well, it
// stays known: its disk may be one that is not mounted now.
func ForgetWorked(state string) error {
	entries, err := os.ReadDir(filepath.Join(state, "worked"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		file := filepath.Join(state, "worked", e.Name())
		folder, err := os.ReadFile(file)
		if err != nil || worked(state, string(folder)) != file || !removed(string(folder)) {
			continue // who made it did not say of what
		}
		errs = append(errs, os.Remove(file))
		if !removed(string(folder)) { // a session that found the mark works there since
			errs = append(errs, remember(state, string(folder)))
		}
	}
	return errors.Join(errs...)
}

func removed(folder string) bool {
	_, err := os.Lstat(folder)                 //nolint:gosec // only asked for, as its mark says
	_, above := os.Lstat(filepath.Dir(folder)) //nolint:gosec // the same
	return errors.Is(err, fs.ErrNotExist) && above == nil
}

// State is nacre's own state folder, as the environment names it.
func State(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(getenv("HOME"), ".local/state")
	}
	return filepath.Join(state, "nacre")
}

// Filled tells whether an agent could have written what lies at a path, or what a link there leads to. It could where that
// lies in a folder that was an agent's project. One that holds the person's home does not count: the person's own programs
// lie there.
func Filled(getenv func(string) string, path string) bool {
	return slices.ContainsFunc([]string{filepath.Clean(path), Resolved(path)}, func(at string) bool {
		earlier := workedIn(State(getenv), at)
		return earlier != "" && !HoldsHome(getenv("HOME"), earlier)
	})
}

// HoldsHome tells a folder that is a person's home, or holds it.
func HoldsHome(home, folder string) bool {
	return Contains(folder, filepath.Clean(home)) || Contains(folder, Resolved(home))
}

// Resolved follows links where it can.
func Resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// workedIn is the folder nearest above a path, or the path itself, that was an agent's project; "" is none.
func workedIn(state, path string) string {
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(worked(state, at)); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// LookPath finds a program that nacre starts on the host, as [exec.LookPath] does, and passes by what an
// agent could have written. PATH was looked at when this process began; other sessions may have
// worked in its folders since (U-01, U-04).
func LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		found, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if !Filled(os.Getenv, found) {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

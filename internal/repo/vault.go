package repo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// maxShallow is the longest list of shallow commits that is read, in bytes.
const maxShallow = 16 << 20

// rawAttributes outranks every .gitattributes file: bytes are bytes, and no
// filter, driver or conversion is looked up.
const rawAttributes = "* -text !crlf !ident !filter !eol !working-tree-encoding !merge !diff\n"

// vault is a git directory of the host's own, which neither the agent nor the
// user's configuration reaches. The user's objects are a read-only alternate.
type vault struct {
	dir string
	// state is the session's directory around it.
	state string
	// reading, where set, is one more folder of objects, of another session.
	reading string
}

// vaultName is the vault's, in its session's directory.
const vaultName = "vault.git"

// scratch holds what only one call needs. A crash leaves it full, so it is
// emptied when the session is carried on.
func (v vault) scratch() string { return filepath.Join(v.state, "scratch") }

func (v vault) emptyScratch() error {
	if err := os.RemoveAll(v.scratch()); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(v.scratch(), 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// create writes what git needs of a repository, without `git init` and its
// templates. It is the same again for a session that is carried on.
func (v vault) create(from place, format string) error {
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "info"} {
		if err := os.MkdirAll(filepath.Join(v.dir, dir), 0o700); err != nil {
			return fmt.Errorf("own git directory: %w", err)
		}
	}
	exclude, err := readOptional(filepath.Join(from.commonDir, "info", "exclude"), 1<<20)
	if err != nil {
		return err
	}
	shallow, err := readShallow(filepath.Join(from.commonDir, "shallow"))
	if err != nil {
		return err
	}
	alternates := git.QuotePath(filepath.Join(from.commonDir, "objects")) + "\n"
	if v.reading != "" {
		alternates += git.QuotePath(v.reading) + "\n"
	}
	files := map[string][]byte{
		"config":                  []byte(configText(format, true)),
		"info/attributes":         []byte(rawAttributes),
		"info/exclude":            exclude,
		"objects/info/alternates": []byte(alternates),
		"HEAD":                    []byte("ref: refs/heads/nacre\n"),
	}
	if len(shallow) > 0 {
		files["shallow"] = shallow
	}
	for name, data := range files {
		if err := disk.Write(filepath.Join(v.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func configText(format string, bare bool) string {
	version, extension := 0, ""
	if format != "sha1" {
		version, extension = 1, "[extensions]\n\tobjectFormat = "+format+"\n"
	}
	return fmt.Sprintf("[core]\n\trepositoryformatversion = %d\n\tbare = %t\n\tfilemode = true\n\tsymlinks = true\n"+
		"\tfsync = committed\n[gc]\n\tauto = 0\n%s", version, bare, extension)
}

// readShallow reads the user's list of commits without parents.
func readShallow(path string) ([]byte, error) {
	data, err := readOptional(path, maxShallow)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if !objectForm().MatchString(strings.TrimSuffix(line, "\n")) {
			return nil, fmt.Errorf("%s is damaged: %w", path, ErrUnsafe)
		}
	}
	return data, nil
}

func readOptional(path string, limit int64) ([]byte, error) {
	data, err := readSmall(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (v vault) setHead(c Commit) error {
	return disk.Write(filepath.Join(v.dir, "HEAD"), []byte(string(c)+"\n"), 0o600)
}

// identity is an author or committer, as git takes it from its environment.
func identity(role, name, email string, at time.Time) []string {
	return []string{
		"GIT_" + role + "_NAME=" + name, "GIT_" + role + "_EMAIL=" + email,
		"GIT_" + role + "_DATE=" + strconv.FormatInt(at.Unix(), 10) + " +0000",
	}
}

// lines joins ids for a command's standard input.
func lines(ids ...string) *bytes.Reader {
	return bytes.NewReader([]byte(strings.Join(ids, "\n") + "\n"))
}

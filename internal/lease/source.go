package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
)

const (
	// maxValue is the longest value, in bytes.
	maxValue = 16 << 10
	// MinValue is the shortest value, in bytes: a shorter one could not be told
	// from other text in the answers of the host that it is for (M-22).
	MinValue = 8
	// commandTimeout bounds a command that prints a value.
	commandTimeout = 30 * time.Second
	// maxName is the longest name of a variable, in bytes.
	maxName = 128
)

// Source says where a value is, never what it is. Exactly one field is set.
type Source struct {
	// Env is a variable of the operator's own environment.
	Env string
	// File is an absolute path that only its owner, and perhaps their group, may read.
	File string
	// Command prints the value; it is run without a shell.
	Command []string
}

// Check refuses a source that names nothing, or several places, or that holds
// what looks like the value itself. No error repeats what was written.
func (s Source) Check() error {
	named := 0
	for _, is := range []bool{s.Env != "", s.File != "", len(s.Command) > 0} {
		if is {
			named++
		}
	}
	switch {
	case named != 1:
		return errors.New("name one place of its value: value_env, value_file or value_cmd")
	case holdsSecret(append([]string{s.Env, s.File}, s.Command...)):
		return errors.New("a place is named here, and what stands here looks like a value itself: move it to a file and name that")
	case s.Env != "" && !isVariable(s.Env):
		return errors.New("value_env is the name of a variable")
	case s.File != "" && (!filepath.IsAbs(s.File) || strings.ContainsRune(s.File, 0)):
		return errors.New("value_file is an absolute path")
	case len(s.Command) > 0 && (s.Command[0] == "" || strings.ContainsRune(s.Command[0], '/') && !filepath.IsAbs(s.Command[0])):
		return errors.New("value_cmd begins with a program's name or absolute path")
	}
	return nil
}

func holdsSecret(texts []string) bool {
	engine := redact.New()
	for _, text := range texts {
		if _, found := engine.String(text); found {
			return true
		}
	}
	return false
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(s) <= maxName
}

// String says where the value is, for a person.
func (s Source) String() string {
	switch {
	case s.Env != "":
		return "the variable " + s.Env
	case s.File != "":
		return "the file " + s.File
	case len(s.Command) > 0:
		return "the command " + s.Command[0]
	}
	return "nowhere"
}

// Read gives the value without the line end after it. An error says what to
// do, and nothing of the value.
func (s Source) Read(ctx context.Context, getenv func(string) string) (nacre.Secret, error) {
	if err := s.Check(); err != nil {
		return nacre.Secret{}, err
	}
	var text string
	var err error
	switch {
	case s.Env != "":
		text = getenv(s.Env)
	case s.File != "":
		text, err = readFile(s.File)
	default:
		text, err = s.run(ctx)
	}
	text = strings.TrimRight(text, "\r\n")
	switch {
	case err != nil:
		return nacre.Secret{}, fmt.Errorf("%s: %w", s, err)
	case text == "":
		return nacre.Secret{}, fmt.Errorf("%s is empty or missing: put the value there", s)
	case len(text) > maxValue:
		return nacre.Secret{}, fmt.Errorf("%s: the value is longer than %d bytes", s, maxValue)
	case len(text) < MinValue:
		return nacre.Secret{}, fmt.Errorf("%s: the value is shorter than %d bytes, and could not be told from other text", s, MinValue)
	case strings.IndexFunc(text, unprintable) >= 0:
		return nacre.Secret{}, fmt.Errorf("%s: the value has characters that are not visible ASCII", s)
	}
	return nacre.NewSecret(text), nil
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// readFile reads a small regular file that others may not read.
func readFile(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", bare(err)
	case !info.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	case info.Mode().Perm()&0o026 != 0 || info.Mode().Perm()&0o004 != 0:
		return "", errors.New("others may read or write it: chmod 600")
	}
	file, err := os.Open(name)
	if err != nil {
		return "", bare(err)
	}
	defer func() { _ = file.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(file, maxValue+2))
	return string(data), err
}

// bare leaves the path out, which the caller says.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// run starts the command as the operator, and keeps nothing of what it says
// besides its output: a complaint may hold the value.
func (s Source) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...) //nolint:gosec // the operator's own config names it
	out := &bounded{}
	command.Stdout, command.Dir, command.WaitDelay = out, "/", time.Second
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s", commandTimeout)
	case errors.As(err, &exit):
		return "", fmt.Errorf("it ended with status %d: run it yourself to see why", exit.ExitCode())
	case err != nil:
		return "", errors.New("it could not be started: name an installed program")
	}
	return out.String(), nil
}

// bounded keeps as much of an output as a value can have, and a little more.
type bounded struct{ bytes.Buffer }

// Write takes all, and keeps the beginning.
func (b *bounded) Write(p []byte) (int, error) {
	if room := maxValue + 2 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

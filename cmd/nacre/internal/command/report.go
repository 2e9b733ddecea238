package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// Report says on stderr what went wrong and gives the code that tells it to scripts.
func (e *Env) Report(stderr io.Writer, err error) int {
	code, err := e.advised(e.CodeOf(err), err)
	var coded *exitError
	if errors.As(err, &coded) && coded.err == nil {
		return code
	}
	if code == ExitInterrupted && coded == nil {
		err = errors.New("interrupted before anything was begun")
	}
	_, _ = fmt.Fprintln(stderr, "nacre: "+strings.Join(Said(err), "\n       ")) // nothing is left to tell it to
	return code
}

// Said is what an error says, line by line, each thing once: several who met one error may
// have joined theirs.
func Said(err error) (lines []string) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = terminal.Escape(strings.TrimSpace(line))
		if !slices.ContainsFunc(lines, func(said string) bool { return strings.HasSuffix(said, line) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// advised gives the next step where those who met an error could not know it. Such errors are what
// is unknown to a store that agents ask as well, and a state folder that is unusable.
func (e *Env) advised(code int, err error) (int, error) {
	switch {
	case errors.Is(err, memory.ErrNotFound):
		return code, fmt.Errorf("%w; nacre memory list --all shows those there are", err)
	case errors.Is(err, ledger.ErrNotFound):
		return code, fmt.Errorf("%w; nacre ledger list shows those there are", err)
	default:
		return e.advisedOnState(code, err)
	}
}

// advisedOnState says what to do where the state folder cannot be written or read, whoever
// met it and however far up it came. A code that a command chose stays, and so does what
// already says what to do.
func (e *Env) advisedOnState(code int, err error) (int, error) {
	var at *fs.PathError
	var coded *exitError
	if classified, known := e.classify(err); !errors.As(err, &at) || known && classified == ExitNotReady || !isInaccessible(at) {
		return code, err
	}
	paths, pathErr := registry.ResolvePaths(e.Getenv)
	if pathErr != nil || !strings.HasPrefix(at.Path, paths.State+string(filepath.Separator)) {
		return code, err
	}
	if !errors.As(err, &coded) {
		code = ExitNotReady
	}
	return code, fmt.Errorf("%w\nmake %s yours and writable, with room on its disk", err, paths.State)
}

func isInaccessible(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

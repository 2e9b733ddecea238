package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// The limits of the files that a call names (D-13).
const (
	// MaxFiles is how many there can be, and how many of a capability's arguments
	// can name any.
	MaxFiles = 16
	// MaxFileBytes is how much they can hold, all together.
	MaxFileBytes = 64 << 20
	// pinDeadline bounds the copying of all files of a call.
	pinDeadline = 30 * time.Second
)

// Pinner copies files of a session's workspace to where no agent can change
// them. Implementations are safe for concurrent use.
type Pinner interface {
	// Pin copies the file name, of at most limit bytes, out of p's workspace, and
	// digests what it has copied. A *nacre.Refusal says in its message what is
	// wrong with the name or the file; other errors are the host's own.
	Pin(ctx context.Context, p nacre.Principal, name string, limit int64) (nacre.FilePin, error)
	// Unpin removes a copy.
	Unpin(pin nacre.FilePin)
}

// namedFile is an argument with the name that stands there.
type namedFile struct{ argument, name string }

// checkFiles refuses a tool whose files could not be pinned.
func (k *catalog) checkFiles(t *tool) error {
	if len(t.capability.Files) > 0 && !k.takesFiles {
		return errors.New("it takes files, and this kernel has no Pinner to copy them")
	}
	return checkFileArguments(t)
}

// checkFileArguments refuses files that no argument of the tool names.
func checkFileArguments(t *tool) error {
	files := t.capability.Files
	if len(files) > MaxFiles {
		return fmt.Errorf("%d arguments name files, the limit is %d", len(files), MaxFiles)
	}
	for _, path := range files {
		if !t.schema.Has(path) {
			return fmt.Errorf("file argument %q is not declared in the input schema", path)
		}
	}
	return nil
}

// pin copies every file that the call names, before anybody is asked about it:
// what was decided on is what runs (D-13). The copies last until unpin.
func (k *acts) pin(ctx context.Context, r *run) error {
	named, err := namedFiles(r.arguments, r.tool.capability.Files)
	if err != nil || len(named) == 0 {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, pinDeadline, errDeadline)
	defer cancel()
	left := int64(MaxFileBytes)
	for _, f := range named {
		pin, err := k.copyFile(within, r, f, left)
		if err != nil {
			k.unpin(r)
			return err
		}
		r.files = append(r.files, pin)
		left -= pin.Bytes
	}
	return nil
}

// copyFile does not wait for a file system that hangs. What comes too late from
// there is removed again.
func (k *acts) copyFile(ctx context.Context, r *run, f namedFile, limit int64) (nacre.FilePin, error) {
	late := make(chan nacre.FilePin, 1)
	pin, err := guarded(ctx, k.left, func() (nacre.FilePin, error) {
		pin, err := k.pinner.Pin(ctx, r.call.Principal, f.name, limit)
		late <- pin
		return pin, err
	}, func() { k.pinner.Unpin(<-late) })
	if err != nil {
		return nacre.FilePin{}, refuseFile(f.argument, err)
	}
	pin.Argument, pin.Name = f.argument, f.name
	if pin.Bytes < 0 || pin.Bytes > limit || len(pin.SHA256) != sha256Hex || pin.Path == "" {
		k.pinner.Unpin(pin)
		return nacre.FilePin{}, refuseFile(f.argument, errors.New("the pinner answered nonsense"))
	}
	return pin, nil
}

// sha256Hex is the length of a digest in hex.
const sha256Hex = 64

// unpin removes the copies. A driver that was left behind finds them gone.
func (k *acts) unpin(r *run) {
	for _, pin := range r.files {
		k.pinner.Unpin(pin)
	}
	r.files = nil
}

// refuseFile tells the agent what is wrong with its file, and of the host nothing.
func refuseFile(argument string, err error) error {
	var wrong *nacre.Refusal
	if errors.As(err, &wrong) && wrong != nil {
		refusal := malformed(argument + ": " + wrong.Message)
		refusal.Field, refusal.Retriable = argument, wrong.Retriable
		return refusal
	}
	return fmt.Errorf("%w: %w", &nacre.Refusal{
		Code: nacre.CodePluginUnavailable, Stage: stagePayload, Retriable: true, Field: argument,
		Message: "the file that " + argument + " names could not be copied",
	}, err)
}

// namedFiles are the names that stand in valid arguments at dotted paths. A
// path goes through a list to each of its elements; what is absent or null
// names nothing.
func namedFiles(arguments json.RawMessage, paths []string) ([]namedFile, error) {
	if len(paths) == 0 || arguments == nil {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(arguments, &value); err != nil {
		return nil, fmt.Errorf("%w: %w", malformed("the arguments cannot be read"), err)
	}
	var found []namedFile
	for _, path := range paths {
		var err error
		if found, err = appendNamed(found, value, "", path); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// appendNamed walks one value at a path; rest is what is left to go, empty where it ends.
func appendNamed(found []namedFile, value any, at, rest string) (_ []namedFile, err error) {
	name, deeper, _ := strings.Cut(rest, ".")
	switch value := value.(type) {
	case nil:
		return found, nil
	case map[string]any:
		if rest == "" {
			break
		}
		return appendNamed(found, value[name], joinPath(at, name), deeper)
	case []any:
		for i, element := range value {
			if found, err = appendNamed(found, element, joinPath(at, strconv.Itoa(i)), rest); err != nil {
				return nil, err
			}
		}
		return found, nil
	case string:
		if rest == "" {
			return appendFile(found, namedFile{at, value})
		}
	}
	refusal := malformed(at + ": name a file, relative to the workspace")
	refusal.Field = at
	return nil, refusal
}

func appendFile(found []namedFile, f namedFile) ([]namedFile, error) {
	switch {
	case slices.Contains(found, f):
		return found, nil
	case len(found) == MaxFiles:
		refusal := malformed(fmt.Sprintf("%s: a call names at most %d files", f.argument, MaxFiles))
		refusal.Field = f.argument
		return nil, refusal
	}
	return append(found, f), nil
}

func joinPath(path, step string) string {
	if path == "" {
		return step
	}
	return path + "." + step
}

// filesDigested are the parts that files add to a digest.
func (r *run) filesDigested() []string {
	parts := make([]string, 0, 4*len(r.files))
	for _, f := range r.files {
		parts = append(parts, f.Argument, f.Name, f.SHA256, strconv.FormatInt(f.Bytes, 10))
	}
	return parts
}

// files says which copies a call was about. Their names may be an agent's
// words, so they are left out.
func (d *detail) files(name string, all []nacre.FilePin) {
	wire.Objects(&d.Summary, name, all, func(f nacre.FilePin) {
		d.Text("argument", f.Argument)
		d.Number("bytes", f.Bytes)
		d.Text("sha256", f.SHA256)
	})
}

//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"os"
)

// Native is Linux's: [Open] returns none.
type Native struct{ Backend }

// Open refuses, and says what to do.
func Open(Options) (*Native, error) {
	return nil, errors.New("namespaces, Landlock and seccomp are Linux's: have a container engine start sandboxes, " +
		"with backend = \"docker\" and an image under [sandbox] in config.toml (docs/install.md, \"On macOS\")")
}

// Check refuses as [Open] does.
func (*Native) Check() error { return errors.ErrUnsupported }

// EndOrphans has nothing to end: no native sandbox ever ran.
func EndOrphans(string) ([]string, error) { return nil, nil }

// WatchUser has nothing to look at: the agent is a user of another kernel.
func WatchUser(_ context.Context, looked func()) string {
	looked()
	return ""
}

// Mapper knows whom agents run as: the user who runs nacre.
type Mapper struct{}

// OpenMapper refuses root, whom no agent may be.
func OpenMapper(string, bool) (*Mapper, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("nacre as root needs Linux: run it as an ordinary user")
	}
	return &Mapper{}, nil
}

// Close implements [io.Closer].
func (*Mapper) Close() error { return nil }

// AgentIDs are the user and group that agents run as.
func (*Mapper) AgentIDs() (uid, gid int) { return os.Geteuid(), os.Getegid() }

// Maps is false: files are shown as they are.
func (*Mapper) Maps() bool { return false }

// Mount refuses.
func (*Mapper) Mount(*Source, bool, bool, string) error { return errors.ErrUnsupported }

// Folder is what a native sandbox is shown while it runs: there is none.
type Folder struct{}

// Path is empty.
func (*Folder) Path() string { return "" }

// Name is empty.
func (*Folder) Name() string { return "" }

// Close does nothing.
func (*Folder) Close() {}

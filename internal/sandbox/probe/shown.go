//go:build linux

package probe

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Shown are folders of the host that a sandbox was shown while it ran (M-42). Beside each lies a file
// with the marker, named [ShownSecret].
type Shown struct {
	// Folder is there, read-only, with the file [ShownNote], and with the link [ShownLink] to what lies beside it.
	Folder string
	// Gone was taken away again. It holds a file with the marker, too.
	Gone string
	// Unshown is why neither was shown; empty where both were.
	Unshown string
}

// What the folders hold.
const (
	ShownNote   = "note"
	ShownLink   = "link"
	ShownSecret = "secret"
)

// shownFolders are what an agent may try with a folder that a person let it see.
func shownFolders() []Probe {
	note := func(folder string) string { return filepath.Join(folder, ShownNote) }
	shown := func(name string, control Control, try func(t Target, folder string) Finding) Probe {
		return Probe{"fs", name, control, func(t Target) Finding {
			if t.Unshown != "" {
				return untestable(errors.New(t.Unshown))
			}
			if _, err := os.ReadFile(note(t.Folder)); err != nil {
				return untestable(err) // what is not there is kept from nobody
			}
			return try(t, t.Folder)
		}}
	}
	return []Probe{
		shown("fs-shown-create", Always, func(_ Target, folder string) Finding { return create(folder, 0o644) }),
		shown("fs-shown-write", Always, func(_ Target, folder string) Finding {
			return attempt(writeTo(note(folder)), "a file of it was opened for writing")
		}),
		shown("fs-shown-chmod", Always, func(_ Target, folder string) Finding {
			return attempt(os.Chmod(note(folder), 0o600), "the mode of a file was changed")
		}),
		shown("fs-shown-hardlink", Always, func(t Target, folder string) Finding {
			name := scratchName(t.Project)
			defer func() { _ = os.Remove(name) }()
			return attempt(os.Link(note(folder), name), "a file of it got a name that can be written to")
		}),
		shown("fs-shown-sibling", Always, func(t Target, folder string) Finding { return findIn(t, folder+"/../"+ShownSecret) }),
		shown("fs-shown-link", Always, func(t Target, folder string) Finding { return findIn(t, filepath.Join(folder, ShownLink)) }),
		shown("fs-shown-remount", AsRoot, func(_ Target, folder string) Finding {
			return permitted(unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_BIND, ""), "it can be mounted anew")
		}),
		shown("fs-shown-unmount", AsRoot, func(_ Target, folder string) Finding {
			return permitted(unix.Unmount(folder, unix.MNT_DETACH), "it can be unmounted")
		}),
		shown("fs-shown-setuid", WhereBuilt, func(_ Target, folder string) Finding {
			var fs unix.Statfs_t
			if err := unix.Statfs(folder, &fs); err != nil {
				return blocked("%v", err)
			}
			if fs.Flags&unix.ST_NOSUID == 0 {
				return escaped("set-user-id programs of it have an effect")
			}
			return blocked("set-user-id programs of it have no effect")
		}),
		shown("fs-shown-gone", Always, func(t Target, _ string) Finding { return findIn(t, filepath.Join(t.Gone, ShownSecret)) }),
	}
}

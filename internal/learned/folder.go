package learned

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
)

// Folder is a folder of the host that a group's sessions are shown, read-only, as soon as their agent
// asks for it.
type Folder struct {
	Group nacre.Group `toml:"group" json:"group"`
	// Folder is its path without symbolic links.
	Folder string `toml:"folder" json:"folder"`
}

func (f Folder) check() error {
	if _, err := nacre.ParseGroup(string(f.Group)); err != nil {
		return err
	}
	if !filepath.IsAbs(f.Folder) || filepath.Clean(f.Folder) != f.Folder || f.Folder == "/" {
		return fmt.Errorf("%.80q is not the absolute path of a folder", f.Folder)
	}
	return nil
}

// FoldersAt are those that a group's sessions are shown at a moment when they ask.
func (a Approvals) FoldersAt(now time.Time, group nacre.Group) (paths []string) {
	for _, l := range a.standing(now) {
		for _, f := range l.Folders {
			if f.Group == group && !slices.Contains(paths, f.Folder) {
				paths = append(paths, f.Folder)
			}
		}
	}
	return paths
}

// FolderAt tells whether a group's sessions are shown a folder at a moment, by which approval and until when.
func (a Approvals) FolderAt(now time.Time, group nacre.Group, folder string) (by Approval, is bool) {
	for _, l := range a.standing(now) {
		for _, f := range l.Folders {
			if f.Group == group && f.Folder == folder && (!is || l.Until.After(by.Until)) {
				by, is = l, true
			}
		}
	}
	return by, is
}

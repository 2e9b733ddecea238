package sandbox

import (
	"errors"
)

// FoldersDir is where the folders are inside that a person lets an agent see while it works.
const FoldersDir = "/folders"

// ErrOver says that a sandbox has ended: nothing is shown in it any more.
var ErrOver = errors.New("the sandbox has ended")

// Shows is a [Backend] whose sandboxes can be shown folders of the host while they run.
type Shows interface {
	OpenFolder(name string) (*Folder, error)
}

// Shown is a [Process] in which folders can be shown while it runs.
type Shown interface {
	// Show lays a folder, read-only, over FoldersDir/place. It returns ErrOver where the
	// sandbox has ended.
	Show(f *Folder, place string) error
	// Hide takes away what was shown there. What a process inside has open of it stays open
	// to that process.
	Hide(place string) error
}

// ErrReplaced refuses a folder that is not any more what a person was shown.
var ErrReplaced = errors.New("it was removed, replaced or mounted upon after it was asked for: refused")

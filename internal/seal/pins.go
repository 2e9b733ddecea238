package seal

import (
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/internal/task"
)

// newPinner serves the folder that the session's agent works in. What a killed
// opening left of copies is removed. Where the session has no project, files are those of folder.
func (t *toolset) newPinner(folder string) (p *pins.Pinner, err error) {
	workspace := t.project
	switch {
	case t.kind == "run": // its agent works on a clone, which is there once the work begins
		dir, err := filepath.EvalSymlinks(t.Dir())
		if err != nil {
			return nil, err
		}
		workspace = filepath.Join(dir, task.WorkDir)
	case workspace == "" && folder != "":
		if workspace, err = filepath.EvalSymlinks(folder); err != nil {
			return nil, err
		}
	}
	p = pins.New(workspace, filepath.Join(t.Dir(), installation.PinsDir))
	return p, p.Close()
}

// WorksOver says what the agent's files are a layer over, so that a file that is
// pinned is the one that the agent sees; empty where they are whole.
func (t *toolset) WorksOver(base string) { t.pins.Over(base) }

// ShowsProject tells whether a plugin of the session sees the project.
func (t *toolset) ShowsProject() bool { return t.plugins.ShowsProject() }

// ForTask is the session as a run in it knows it.
func (s *Session) ForTask() task.Session {
	return task.Session{Opened: s.Session, Recorder: s.Recorder, Interrupted: s.Interruption.Begun(), Heed: s.Refusals.Heed}
}

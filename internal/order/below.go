package order

import (
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/task"
)

// Below is the task of a sub-agent that a role holds; held is false where none does. It is
// held at least as much as its parent: by its parent's role and lists, or by a role that has all
// that its parent's has.
func Below(of task.Spec, name, words string) (t atom.Task, held bool, err error) {
	if name == "" && of.Order == nil {
		return atom.Task{}, false, nil
	}
	if name == "" {
		name = of.Order.Role
	}
	resolved, err := Resolve(of.Project, name)
	if err == nil {
		err = resolved.CheckSpawnable()
	}
	if err == nil {
		t, err = atom.NewTask(name, words)
	}
	if err != nil {
		return t, false, config.Errorf("role %s: %w", name, err)
	}
	if of.Order == nil {
		return t, true, nil
	}
	above, err := Resolve(of.Project, of.Order.Role)
	if err == nil {
		above.Atoms = of.Order.Atoms // as they were pinned
		err = resolved.Within(above)
	}
	t.Parameters = of.Order.Parameters
	t.Role, t.AgentID, t.ReportFields, t.Commands = name, "", nil, nil
	return t, true, err
}

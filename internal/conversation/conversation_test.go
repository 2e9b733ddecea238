package conversation_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/task"
)

// D-36: a turn that failed before the brain had anything to go on from leaves what
// the turn before it left.
func TestAConversationGoesOnFrom(t *testing.T) {
	done := func(resume string) task.Visit { return task.Visit{Brain: "claude", Ended: "done", Resume: resume} }
	failed := func(resume string) task.Visit {
		return task.Visit{Brain: "claude", Ended: "the model is gone", Resume: resume}
	}
	for name, c := range map[string]struct {
		turns []task.Visit
		want  string
	}{
		"the last turn":                        {[]task.Visit{done("a"), done("b")}, "b"},
		"the turn before one that failed":      {[]task.Visit{done("a"), failed(""), failed("")}, "a"},
		"a turn that failed later":             {[]task.Visit{done("a"), failed("b")}, "b"},
		"nothing, where the brain says so":     {[]task.Visit{done("a"), done("")}, ""},
		"the turn before one without a brain":  {[]task.Visit{done("a"), {Ended: "done", Idle: true}, done("c")}, "c"},
		"nothing after one that was cut short": {[]task.Visit{done("a"), {}, failed("")}, ""},
	} {
		have, err := conversation.GoesOnFrom(t.TempDir(), c.turns...)
		if err != nil || have != c.want {
			t.Errorf("%s: have %q, %v, want %q", name, have, err, c.want)
		}
	}
}

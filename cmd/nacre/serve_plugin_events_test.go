package main_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// D-32, F-67: whoever subscribes hears that a plugin has started and that it is about
// to end: at the start of nacre serve, at a reload, and at the end.
func TestPluginsAreToldOf(t *testing.T) {
	t.Parallel()
	i, _ := served(t, "[groups.main]\ntools = [\"send_box\"]\n", scriptedmodel.Turn{Text: "Done."})
	said, stop := i.serve()
	until(t, "the start to be told of", func() bool { return strings.Contains(said(), "plugin.ready") })
	tail := i.watch("events", "tail", "--topic", "plugin", "--json")
	until(t, "the reload to be told of", func() bool {
		i.nacre("plugin", "reload", "box").want(t, 0)
		return tail.shows(`"topic":"plugin.stopping"`) && tail.shows(`"topic":"plugin.ready"`)
	})
	before := strings.Count(tail.text(), `"topic":"plugin.stopping"`)
	stop()
	if have := finish(t, tail.running); have.code != 0 {
		t.Errorf("exit %d: %s", have.code, have.stderr)
	}
	if told := tail.text(); strings.Count(told, `"topic":"plugin.stopping"`) <= before || !strings.Contains(told, `"plugin":"box"`) {
		t.Errorf("the end was not told of: %s", told)
	}
}

// text is what was shown so far.
func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stdout.String()
}

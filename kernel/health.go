package kernel

import (
	"maps"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
)

// degradedAfter is how many time-outs in a row make a source degraded (D-30).
const degradedAfter = 3

// health counts the time-outs in a row of each source of tools.
type health struct {
	mu       sync.Mutex
	timeouts map[string]int
}

func (h *health) note(source string, f *failure) {
	if f != nil && f.gone {
		return // the caller left; that says nothing of the source
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f == nil || f.refusal.Code != nacre.CodePluginTimeout {
		delete(h.timeouts, source)
		return
	}
	if h.timeouts == nil {
		h.timeouts = make(map[string]int)
	}
	h.timeouts[source]++
}

// Degraded names the sources of tools, such as plugins, whose last three
// answers or more did not come in time.
func (k *Kernel) Degraded() []string {
	k.health.mu.Lock()
	defer k.health.mu.Unlock()
	counts := maps.Clone(k.health.timeouts)
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n < degradedAfter })
	return slices.Sorted(maps.Keys(counts))
}

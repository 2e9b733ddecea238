package door

import (
	"fmt"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
)

// flights are the session's requests in flight, over all its connections.
type flights struct {
	limit int
	mu    sync.Mutex
	open  map[nacre.Correlation]struct{}
}

// enter takes a place, unless there is none or the correlation is in flight (D-03, D-04).
func (f *flights) enter(id nacre.Correlation) *nacre.Refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, twice := f.open[id]; twice {
		return message.Malformed("correlation", "a request with this correlation is in flight: use an id of its own for each")
	}
	if len(f.open) >= f.limit {
		return &nacre.Refusal{
			Code: nacre.CodeRateLimited, Message: fmt.Sprintf("%d requests of this session are in flight", f.limit),
			Retriable: true, Stage: stageRate, RetryAfter: 1, Reason: nacre.ReasonRateLimited,
		}
	}
	if f.open == nil {
		f.open = make(map[nacre.Correlation]struct{}, f.limit)
	}
	f.open[id] = struct{}{}
	return nil
}

func (f *flights) leave(id nacre.Correlation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, id)
}

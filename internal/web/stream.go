package web

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// maxStreams is how many pages are told of changes at the same time.
	maxStreams = 16
	// lookEvery is how often a page's state is looked at, and beatEvery how often a page is told
	// that nothing has changed. sendTime is how long a browser may take for what it is sent.
	lookEvery, beatEvery, sendTime = time.Second, 15 * time.Second, 10 * time.Second
)

// What a page watches. A session's id stands behind watchSession, a place in the list behind
// watchSessionsFrom.
const (
	watchWaiting, watchSessions, watchHealth, watchLearn = "waiting", "sessions", "health", "learn"
	watchSession, watchSessionsFrom                      = "session:", "sessions:"
)

// stream tells a page when what it shows is not so any more (M-49). The id of an event is the name
// of the state that the page is to show. So a page that comes back names the state that it has, and
// is told at once where that is another one. No change is lost between them, and none is told
// twice.
func (s *Site) stream(w http.ResponseWriter, r *http.Request, _ string) {
	state, ok := s.watched(r.FormValue("watch"))
	if !ok {
		http.Error(w, "Nothing of this name changes.", http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		seen = r.FormValue("seen")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	line := &line{out: w, control: http.NewResponseController(w)}
	_ = line.control.SetReadDeadline(time.Time{}) // the server's own is for requests that end
	if line.send("retry: 2000\n\n") != nil {
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for beat := s.Now(); ; {
		if _, _, signed := s.signedIn(r); !signed {
			return
		}
		text := ""
		if now := state(r.Context()); now != seen {
			seen, text = now, fmt.Sprintf("id: %s\nevent: changed\ndata: %s\n\n", now, now)
		} else if s.Now().Sub(beat) >= beatEvery {
			text = ": nothing has changed\n\n"
		}
		if text != "" {
			beat = s.Now()
			if line.send(text) != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-look.C:
		}
	}
}

// line is a connection to a page, which is given up when it takes nothing.
type line struct {
	out     http.ResponseWriter
	control *http.ResponseController
}

func (l *line) send(text string) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(sendTime)) // a writer without one is a test's
	if _, err := fmt.Fprint(l.out, text); err != nil {
		return err
	}
	return l.control.Flush()
}

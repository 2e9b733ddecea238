package sessioncmd

import (
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// tally counts what a person asks first of a session's records.
type tally struct {
	first, last                                         audit.Entry
	records, calls, refused, connections, closed, asked int
}

func (t *tally) add(e audit.Entry) {
	if t.records == 0 {
		t.first = e
	}
	t.last = e
	t.records++
	switch e.Kind {
	case nacre.KindCallBegin:
		t.calls++
	case nacre.KindCallReject:
		t.refused++
	case nacre.KindApprovalAsk:
		t.asked++
	case nacre.KindEgress:
		switch e.Outcome {
		case "allowed":
			t.connections++
		case "denied":
			t.closed++
		}
	default:
	}
}

// String is the last line of what is shown.
func (t *tally) String() string {
	return fmt.Sprintf("%d records over %s: %d calls carried out, %d refused · %d connections, %d refused · %d questions",
		t.records, terminal.Seconds(t.last.Time.Sub(t.first.Time)), t.calls, t.refused, t.connections, t.closed, t.asked)
}

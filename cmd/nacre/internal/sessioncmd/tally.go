package sessioncmd

import (
	"encoding/json"
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
		t.refused += refusals(e)
	case nacre.KindApprovalAsk:
		t.asked++
	case nacre.KindEgress:
		switch e.Outcome {
		case "allowed":
			t.connections++
		case "denied":
			t.closed += refusals(e)
		}
	default:
	}
}

// refusals is how many a record tells of: in a burst, most are counted and not recorded one
// by one (U-12).
func refusals(e audit.Entry) int {
	var d struct {
		Repeated int `json:"repeated"`
		Omitted  int `json:"omitted_before"`
	}
	_ = json.Unmarshal(e.Detail, &d) // a record without counts tells of itself
	switch {
	case d.Repeated > 0:
		return d.Repeated
	case e.Topic == "" && d.Omitted > 0:
		return d.Omitted
	}
	return 1 + d.Omitted
}

// String is the last line of what is shown.
func (t *tally) String() string {
	return fmt.Sprintf("%d records over %s: %d calls carried out, %d refused · %d connections, %d refused · %d questions",
		t.records, terminal.Seconds(t.last.Time.Sub(t.first.Time)), t.calls, t.refused, t.connections, t.closed, t.asked)
}

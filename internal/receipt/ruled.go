package receipt

import (
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
)

// Ruled is what persons ruled in openings of a session, and what was done under each ruling, by
// the records (M-55). What was not asked, or not answered, is not among it.
func Ruled(inst *installation.Installation, chains []string) ([]nacre.Ruled, error) {
	r := rulings{at: map[string]int{}}
	err := installation.EachRecord(inst, chains, r.add)
	return r.list, err
}

// rulings are those that were read so far.
type rulings struct {
	list []nacre.Ruled
	// at is where each question's stands in the list.
	at map[string]int
	// begun are the calls under a ruling that have no end yet, by what a call and its end have in
	// common. That is of an agent's own choosing, so several may have the same.
	begun map[begun][]string
}

type begun struct{ call, capability string }

// entered are the fields of the records that rulings are read from.
type entered struct {
	Call       string
	Capability string
	Like       string
	Question   string
	Digest     string
	By         string
	Scope      string
	Stands     int64
	Times      int
	Verdict    nacre.Verdict
}

func (r *rulings) add(e nacre.Record) error {
	switch e.Kind {
	case nacre.KindApprovalReply, nacre.KindCallBegin, nacre.KindCallEnd:
	default:
		return nil
	}
	if e.Kind == nacre.KindApprovalReply && e.Outcome != nacre.OutcomeAllowed && e.Reason != string(nacre.ReasonDenied) {
		return nil // nobody answered
	}
	var d entered
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return err
	}
	key := begun{d.Call, d.Capability}
	switch e.Kind {
	case nacre.KindApprovalReply:
		r.ruled(e.Time, d)
	case nacre.KindCallBegin:
		r.begin(key, d.Question)
	default:
		r.end(key, e)
	}
	return nil
}

// ruled takes in an answer. One from before nacre wrote down what it is about is asked again.
func (r *rulings) ruled(at time.Time, d entered) {
	if d.Like == "" || d.Question == "" {
		return
	}
	one := nacre.Ruled{Like: d.Like, Verdict: d.Verdict, Question: d.Question, Digest: d.Digest, By: d.By, At: at}
	if d.Scope != nacre.ScopeOnce.String() && d.Scope != nacre.ScopeText.String() {
		one.Span, one.Times = time.Duration(d.Stands)*time.Second, d.Times
	}
	r.at[d.Question] = len(r.list)
	r.list = append(r.list, one)
}

func (r *rulings) begin(key begun, question string) {
	if r.begun == nil {
		r.begun = map[begun][]string{}
	}
	r.begun[key] = append(r.begun[key], question)
	if i, known := r.at[question]; known {
		r.list[i].Uses++
	}
}

// end takes in that the call which began first of those that are alike has ended.
func (r *rulings) end(key begun, e nacre.Record) {
	open := r.begun[key]
	if len(open) == 0 {
		return
	}
	r.begun[key] = open[1:]
	if i, known := r.at[open[0]]; known && e.Outcome != nacre.OutcomeError {
		r.list[i].Done = e.Time
	}
}

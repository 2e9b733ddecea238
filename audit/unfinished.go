package audit

import (
	"cmp"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/canonical"
)

// pairs names the beginning that a kind begins or ends.
func pairs(k nacre.Kind) (begin nacre.Kind, begins bool) {
	switch k {
	case nacre.KindCallBegin, nacre.KindCallEnd:
		return nacre.KindCallBegin, k == nacre.KindCallBegin
	case nacre.KindModelBegin, nacre.KindModelEnd:
		return nacre.KindModelBegin, k == nacre.KindModelBegin
	case nacre.KindMergeIntent, nacre.KindMergeDone:
		return nacre.KindMergeIntent, k == nacre.KindMergeIntent
	default:
		return "", false
	}
}

// pair matches beginnings and ends by the id in their details, which for a call is the host's name
// of it. Without one it goes by their correlation, which an agent may choose twice.
func (v *verification) pair(kind nacre.Kind, begins bool, e Entry) {
	id := "correlation:" + string(e.Correlation)
	for _, name := range []string{"call", "id"} {
		if given := canonical.Text(e.Detail, name); given != "" {
			id = name + ":" + given
		}
	}
	key := string(kind) + " " + id
	open := v.pending[key]
	switch {
	case begins:
		v.pending[key] = append(open, Unfinished{Kind: kind, Seq: e.Seq, ID: id})
	case len(open) > 1:
		v.pending[key] = open[1:]
	default:
		delete(v.pending, key)
	}
}

// maxUnfinished is how many beginnings without an end a report names.
const maxUnfinished = 100

func (v *verification) countUnfinished() {
	for _, open := range v.pending {
		v.report.Unfinished = append(v.report.Unfinished, open...)
		if len(open) > 0 && open[0].Kind == nacre.KindCallBegin {
			v.report.OutcomeUnknown += len(open)
		}
	}
	slices.SortFunc(v.report.Unfinished, func(a, b Unfinished) int { return cmp.Compare(a.Seq, b.Seq) })
	v.report.Unfinished = v.report.Unfinished[:min(len(v.report.Unfinished), maxUnfinished)]
}

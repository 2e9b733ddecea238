package task_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
)

// merges is a record of a landing.
func merges(t *testing.T, kind nacre.Kind, outcome string, detail map[string]string) nacre.Record {
	t.Helper()
	raw, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}
	return nacre.Record{Kind: kind, Outcome: outcome, Detail: raw}
}

// U-25, S-12: whether a work has landed is what its last record of a landing says. Where that was
// the intent, it is what git says, since nacre may be ended between the two.
func TestWhetherAWorkHasLanded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var records []nacre.Record
	result, err := b.opens(t.Context(), func() {}, func(p *task.Parts) {
		recorder := p.Session.Recorder
		p.Session.Recorder = keeping{recorder, &records}
	})
	if err != nil || !result.Landed {
		t.Fatal(result, err)
	}
	to, other := result.Commit, b.git("rev-parse", "HEAD~1")
	on := func(ref, commit string) map[string]string {
		return map[string]string{"branch": "main", "ref": ref, "to": commit}
	}
	intent := merges(t, nacre.KindMergeIntent, "", on("refs/heads/main", to))
	unmade := "f" + to[1:]
	if unmade == to {
		unmade = "e" + to[1:]
	}
	gone := t.TempDir()
	for name, c := range map[string]struct {
		records []nacre.Record
		project string
		want    string
	}{
		"as it was recorded":                       {records, b.project, to},
		"nothing":                                  {nil, b.project, ""},
		"the intent, and it moved":                 {[]nacre.Record{intent}, b.project, to},
		"the intent, and it did not":               {[]nacre.Record{merges(t, nacre.KindMergeIntent, "", on("refs/heads/main", unmade))}, b.project, ""},
		"the intent of another branch":             {[]nacre.Record{merges(t, nacre.KindMergeIntent, "", on("refs/heads/nacre/s1", to))}, b.project, ""},
		"it stayed":                                {[]nacre.Record{intent, merges(t, nacre.KindMergeDone, "stayed on nacre/s1", on("", to))}, b.project, ""},
		"it moved, and then landed":                {[]nacre.Record{merges(t, nacre.KindMergeDone, "target moved", on("", other)), merges(t, nacre.KindMergeDone, "landed", on("", to))}, b.project, to},
		"the project is gone":                      {[]nacre.Record{intent}, gone, ""},
		"it was recorded, and the project is gone": {[]nacre.Record{intent, merges(t, nacre.KindMergeDone, "landed", on("", to))}, gone, to},
	} {
		in := task.LandedIn{Dir: b.paths.Session("s1"), Work: registry.WorkName("s1", 1), Project: c.project, Now: time.Now}
		have, err := task.HasLanded(t.Context(), in, func(take func(nacre.Record) error) error {
			for _, r := range c.records {
				if err := take(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || have != c.want {
			t.Errorf("%s: %q, %v, where %q was expected", name, have, err, c.want)
		}
	}
}

// keeping is a recorder whose records are kept as well.
type keeping struct {
	nacre.Recorder
	records *[]nacre.Record
}

func (k keeping) Commit(ctx context.Context, r nacre.Record) error {
	*k.records = append(*k.records, r)
	return k.Recorder.Commit(ctx, r)
}

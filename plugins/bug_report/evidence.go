package main

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const maxRecords = 50 // of one call

// wordForm is what a record's field may be to stand in an issue: the host's
// own words and codes, never free text.
var wordForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`) })

// A record is what the host tells of one step of a call.
type record struct {
	Time        time.Time         `json:"time"`
	Kind        string            `json:"kind"`
	Group       nacre.Group       `json:"group"`
	Session     string            `json:"session"`
	Topic       string            `json:"topic"`
	Correlation nacre.Correlation `json:"correlation"`
	Stage       int               `json:"stage"`
	Outcome     string            `json:"outcome"`
	Reason      string            `json:"reason"`
	Detail      struct {
		Call     string `json:"call"`
		Code     string `json:"code"`
		Original string `json:"original"`
	} `json:"detail"`
}

// gather asks the host for the records of the calls: those of the request's
// own group, and of steps that calls have.
func gather(ctx context.Context, r *plugin.Request, ids []string) ([]record, error) {
	var found []record
	for _, id := range ids {
		raw, err := r.AuditLog(ctx, plugin.AuditFilter{Correlation: nacre.Correlation(id), LastN: maxRecords})
		if err != nil {
			return nil, err
		}
		var all []record
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(rec record) bool {
			return rec.Group != r.Group || rec.Correlation != nacre.Correlation(id) ||
				!strings.HasPrefix(rec.Kind, "call.") && !strings.HasPrefix(rec.Kind, "approval.")
		})
		found = append(found, all...)
	}
	slices.SortStableFunc(found, func(a, b record) int { return a.Time.Compare(b.Time) })
	return found, nil
}

// A row is a record as the issue shows it.
type row struct {
	time, correlation, tool, step string
	stage                         int
	outcome, code, original       string
	millis                        int64 // since the call began; -1 where its beginning is not known
}

// rows counts the milliseconds of each call from its first record.
func rows(found []record) []row {
	began := map[string]time.Time{}
	var all []row
	for _, rec := range found {
		call := rec.Session + " " + string(rec.Correlation) + " " + rec.Detail.Call
		if rec.Kind == string(nacre.KindCallBegin) {
			began[call] = rec.Time
		}
		r := row{
			time: rec.Time.UTC().Format("2006-01-02 15:04:05.000"), correlation: string(rec.Correlation),
			tool: strings.TrimPrefix(rec.Topic, "tool.invoke."), step: rec.Kind, stage: rec.Stage, outcome: rec.Outcome,
			code: rec.Detail.Code, original: rec.Detail.Original, millis: -1,
		}
		if r.code == "" && r.outcome != nacre.OutcomeAllowed {
			r.code = rec.Reason
		}
		if rec.Kind == string(nacre.KindCallHandler) && r.original == "" {
			r.original = rec.Reason
		}
		if at, ok := began[call]; ok {
			r.millis = rec.Time.Sub(at).Milliseconds()
		}
		all = append(all, r)
	}
	return all
}

// word is a field that is one, or a dash.
func word(text string) string {
	if !wordForm().MatchString(text) {
		return "–"
	}
	return text
}

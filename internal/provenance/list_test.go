package provenance_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// K-29: a list that is, as a whole, one list of the record that the operator named may be taken
// over. With one more in it, with one less, or from another record it may not.
func TestAListOfTheRecordThatWasNamed(t *testing.T) {
	invites := provenance.Declared{Tool: "invite", Sinks: []string{"guests"}, Kinds: map[string]nacre.ValueKind{"guests": nacre.KindEmail}}
	s := scene{
		task: "Invite those of the budget review to a second round.", mints: []string{"*.id"},
		result: `[{"id":"ev-1","title":"Budget review","guests":["Bea@corp.example","cy@corp.example","ann@corp.example"],"rooms":["eve@evil.example"],"seats":[1,2]},
			{"id":"ev-2","title":"Lunch","guests":["eve@evil.example","dan@corp.example"]}]`,
	}
	elsewhere := s
	elsewhere.task = "Invite those of the offsite to a second round."
	unminted := s
	unminted.mints = nil
	for name, c := range map[string]struct {
		scene scene
		list  string
		want  string
	}{
		"all of them":                             {s, `["bea@corp.example","cy@corp.example","ann@corp.example"]`, "trusted"},
		"in another order, without the operator":  {s, `["cy@corp.example","BEA@corp.example"]`, "trusted"},
		"one of them twice":                       {s, `["cy@corp.example","cy@corp.example","bea@corp.example"]`, "trusted"},
		"one less":                                {s, `["cy@corp.example"]`, "untrusted"},
		"one more, of another record":             {s, `["bea@corp.example","cy@corp.example","eve@evil.example"]`, "untrusted"},
		"one more, seen nowhere":                  {s, `["bea@corp.example","cy@corp.example","eve@other.example"]`, "untrusted"},
		"those of another record":                 {s, `["eve@evil.example","dan@corp.example"]`, "untrusted"},
		"the only one of another list":            {s, `["eve@evil.example"]`, "untrusted"},
		"nobody but the operator and one of them": {s, `["ann@corp.example","cy@corp.example"]`, "untrusted"},
		"all of them, where nothing was named":    {elsewhere, `["bea@corp.example","cy@corp.example"]`, "untrusted"},
		"all of them, where nothing is minted":    {unminted, `["bea@corp.example","cy@corp.example"]`, "untrusted"},
	} {
		have := c.scene.ledger().Judge(json.RawMessage(`{"guests":`+c.list+`}`), invites)
		trusted := !slices.ContainsFunc(have, func(o nacre.Origin) bool { return o.Provenance.Label() != nacre.Trusted })
		if len(have) == 0 || trusted != (c.want == "trusted") {
			t.Errorf("%s: have %+v, want %s", name, have, c.want)
		}
		without := invites
		without.Without = []nacre.Grounds{nacre.GroundsList}
		if slices.ContainsFunc(c.scene.ledger().Judge(json.RawMessage(`{"guests":`+c.list+`}`), without), func(o nacre.Origin) bool { return o.Grounds == nacre.GroundsList }) {
			t.Errorf("%s: the ground counts where it was taken away", name)
		}
	}
}

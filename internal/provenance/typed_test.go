package provenance_test

import (
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// TestWhatPeopleType: an amount in words or with its unit, and an id of two characters, are the
// operator's where they wrote them, and nobody's where an outsider did (K-29).
func TestWhatPeopleType(t *testing.T) {
	moves := provenance.Declared{
		Tool: "move", Sinks: []string{"pen", "count"}, Kinds: map[string]nacre.ValueKind{"pen": nacre.KindID, "count": nacre.KindAmount},
	}
	for name, c := range map[string]struct {
		task, arguments string
		want            nacre.Provenance
	}{
		"a number as a word":             {"Order two bags.", `{"count":2}`, nacre.SeenOperator},
		"a number as a word, as text":    {"Order two bags.", `{"count":"2"}`, nacre.SeenOperator},
		"how often":                      {"Order the book twice.", `{"count":2}`, nacre.SeenOperator},
		"one of what follows":            {"Order one piece.", `{"count":1}`, nacre.SeenOperator},
		"one that stands for a thing":    {"Take the one for Bo, that one of us wants.", `{"count":1}`, nacre.SeenNowhere},
		"with its unit":                  {"Enter 40mg, now.", `{"count":40}`, nacre.SeenOperator},
		"with its unit, and a fraction":  {"Enter 1,5kg.", `{"count":1.5}`, nacre.SeenOperator},
		"another number":                 {"Order two bags of 40mg.", `{"count":240}`, nacre.SeenNowhere},
		"a day of a month":               {"On the 19th.", `{"count":19}`, nacre.SeenNowhere},
		"an hour":                        {"At 10am.", `{"count":10}`, nacre.SeenNowhere},
		"a class of a school":            {"For 4b.", `{"count":4}`, nacre.SeenNowhere},
		"a number as a word is no id":    {"Move two of them.", `{"pen":2}`, nacre.SeenNowhere},
		"a short id":                     {"Put her in pen P7.", `{"pen":"p7"}`, nacre.SeenOperator},
		"a short id inside another one":  {"Put her in pen XP7.", `{"pen":"P7"}`, nacre.SeenNowhere},
		"another short id":               {"Put her in pen P7.", `{"pen":"P8"}`, nacre.SeenNowhere},
		"a short word, which is no id":   {"Do it so.", `{"pen":"it"}`, nacre.SeenNowhere},
		"a digit of another script":      {"Put her in pen P\u0667.", `{"pen":"P7"}`, nacre.SeenNowhere},
		"a mark of direction in it":      {"Put her in pen P\u202e7.", `{"pen":"P7"}`, nacre.SeenOperator},
		"no number":                      {"Order two bags.", `{"count":"NaN"}`, nacre.SeenNowhere},
		"a number that nobody can write": {"Order 1e999999 bags.", `{"count":1e999999}`, nacre.SeenNowhere},
	} {
		t.Run(name, func(t *testing.T) {
			l := provenance.New()
			l.Observe(operator, []byte(c.task))
			if o := l.Judge([]byte(c.arguments), moves); len(o) != 1 || o[0].Provenance != c.want {
				t.Errorf("from the operator: %v, want %s", o, c.want)
			}
			l = provenance.New()
			l.Observe(untrusted, []byte(c.task))
			if o := l.Judge([]byte(c.arguments), moves); len(o) != 1 || o[0].Provenance.Label() == nacre.Trusted {
				t.Errorf("from an outsider: %v", o)
			}
		})
	}
}

// TestSuperlatives: the cheapest, the latest and the like is one record of those that the operator
// asked for, by what systems wrote and no outsider's text (K-29).
func TestSuperlatives(t *testing.T) {
	offers := heard{tool: "offers", arguments: `{"product":"flour"}`, mints: []string{"*.id", "*.day"}, result: `[
		{"id":"O-1","price_per_ton":318,"stars":4,"day":"2026-04-02","note":"2026-01-01"},{"id":"O-2","price_per_ton":296,"stars":2,"day":"2026-04-03","note":"2026-01-02"},
		{"id":"O-3","price_per_ton":331,"stars":4,"day":"2026-04-01","note":"2025-01-01"}]`}
	unasked, same, texts := offers, offers, offers
	unasked.tool, unasked.arguments = "list", `{"product":"evil"}`
	same.result = `[{"id":"O-1","price":296},{"id":"O-2","price":296},{"id":"O-3","price":331}]`
	texts.result = `[{"id":"O-1","price":"318"},{"id":"O-2","price":"296"}]`
	for name, c := range map[string]struct {
		task   string
		result heard
		id     string
		want   nacre.Grounds
	}{
		"the cheapest":                        {"We need flour, take the cheapest.", offers, "O-2", nacre.GroundsPicked},
		"another one":                         {"We need flour, take the cheapest.", offers, "O-1", ""},
		"the latest day":                      {"Take the latest flour.", offers, "O-2", nacre.GroundsPicked},
		"the first day":                       {"Take the first flour on the list.", offers, "O-3", nacre.GroundsPicked},
		"the order of what is to be done":     {"First look for flour, at last buy it.", offers, "O-3", ""},
		"the lowest of a field":               {"Take the flour with the lowest stars.", offers, "O-2", nacre.GroundsPicked},
		"two that are the highest of a field": {"Take the flour with the highest stars.", offers, "O-1", ""},
		"two that are the cheapest":           {"We need flour, take the cheapest.", same, "O-1", ""},
		"a price that is a text":              {"We need flour, take the cheapest.", texts, "O-2", ""},
		"a list that nobody asked for":        {"We need flour, take the cheapest.", unasked, "O-2", ""},
		"no superlative":                      {"We need flour.", offers, "O-2", ""},
	} {
		t.Run(name, func(t *testing.T) { wants(t, told(c.task, c.result), `{"id":"`+c.id+`"}`, deletes, c.want) })
	}
}

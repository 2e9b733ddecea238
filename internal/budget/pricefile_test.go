package budget_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// M-04: the operator's prices stand over the built-in ones; nothing is guessed.
func TestPriceFile(t *testing.T) {
	table, err := budget.ParsePrices([]byte(`
		[models."gpt-5.1"]
		input = 9
		output = "90.5"
		cache_read = 0.000001
		[models."qwen3:8b"]
		free = true
		[models.long]
		input = 1
		output = 2
		cache_read = 0
		long_above = 200_000
		long_factor = 2`))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]budget.Price{
		"gpt-5.1":            {Input: 9_000_000, Output: 90_500_000, CacheRead: 1, CacheWrite: 9_000_000, CacheWriteLong: 9_000_000},
		"gpt-5.1-2025-11-13": {Input: 9_000_000, Output: 90_500_000, CacheRead: 1, CacheWrite: 9_000_000, CacheWriteLong: 9_000_000},
		"qwen3:8b":           {Free: true},
		"long":               {Input: 1_000_000, Output: 2_000_000, CacheWrite: 1_000_000, CacheWriteLong: 1_000_000, LongAbove: 200_000, LongFactor: 2},
		"gpt-5-mini":         budget.OpenAIPrices()["gpt-5-mini"],
		"claude-opus-5-5":    budget.AnthropicPrices()["claude-opus-5-5"],
		"gpt-4.1-2025-04-14": budget.ListPrices()["gpt-4.1"],
	} {
		if have, err := table.Lookup(id); err != nil || have != want {
			t.Errorf("%s: have %+v %v, want %+v", id, have, err, want)
		}
	}
}

func TestAPriceFileAloneIsTheWholeTable(t *testing.T) {
	table, err := budget.ParsePrices([]byte("builtin = false\n[models.m]\ninput = 1\noutput = 1"))
	if err != nil || len(table) != 1 {
		t.Errorf("have %d models, %v", len(table), err)
	}
	if table, err = budget.ParsePrices(nil); err != nil || len(table) != len(budget.ListPrices()) {
		t.Errorf("an empty file: have %d models, %v", len(table), err)
	}
}

func TestPriceFilesThatAreRefused(t *testing.T) {
	for name, file := range map[string]string{
		"an unknown key":          "[models.m]\ninput = 1\noutput = 1\ncached = 2",
		"a key in another case":   "[models.m]\nInput = 1\noutput = 1",
		"a key in two cases":      "[models.m]\ninput = 1\nINPUT = 2\noutput = 1",
		"a table in another case": "[Models.m]\nfree = true",
		"a key of a model above":  "input = 1",
		"a table in a model":      "[models.m]\nfree = true\n[models.m.free]\nx = 1",
		"a key under a model":     "[models.m.input]\noutput = 1",
		"an unknown table":        "[prices.m]\ninput = 1",
		"no output":               "[models.m]\ninput = 1",
		"no price at all":         "[models.m]",
		"a price of nothing":      "[models.m]\ninput = 0\noutput = 0",
		"a negative price":        "[models.m]\ninput = -1\noutput = 1",
		"a negative zero":         "[models.m]\ninput = -0.0\noutput = 1",
		"infinity":                "[models.m]\ninput = inf\noutput = 1",
		"no number":               "[models.m]\ninput = nan\noutput = 1",
		"an exponent as a text":   "[models.m]\ninput = \"1e3\"\noutput = 1",
		"a sign":                  "[models.m]\ninput = \"+1\"\noutput = 1",
		"a currency":              "[models.m]\ninput = \"$1\"\noutput = 1",
		"a point at the end":      "[models.m]\ninput = \"1.\"\noutput = 1",
		"a point at the start":    "[models.m]\ninput = \".5\"\noutput = 1",
		"seven decimals":          "[models.m]\ninput = \"0.0000001\"\noutput = 1",
		"too dear":                "[models.m]\ninput = 1501\noutput = 1",
		"a number without end":    "[models.m]\ninput = \"" + strings.Repeat("9", 100) + "\"\noutput = 1",
		"true":                    "[models.m]\ninput = true\noutput = 1",
		"free and not":            "[models.m]\nfree = true\ninput = 0",
		"a long price alone":      "[models.m]\ninput = 1\noutput = 1\nlong_above = 5",
		"an empty id":             "[models.\"\"]\nfree = true",
		"an id with a space":      "[models.\"a b\"]\nfree = true",
		"an id beyond ASCII":      "[models.\"gpt\u20115\"]\nfree = true",
		"an id without end":       "[models." + strings.Repeat("x", 129) + "]\nfree = true",
		"a model twice":           "[models.m]\nfree = true\n[models.m]\nfree = true",
		"no TOML":                 "{",
		"not UTF-8":               "# \xff",
		"more than the limit":     strings.Repeat("#", budget.MaxPriceFile+1),
		"a model that is a price": "models.m = 1",
	} {
		if table, err := budget.ParsePrices([]byte(file)); err == nil {
			t.Errorf("%s: accepted with %+v", name, table["m"])
		}
	}
}

func FuzzPriceFile(f *testing.F) {
	for _, s := range []string{"", "[models.m]\ninput = 1.5\noutput = 2", "builtin = false\n[models.\"q:8\"]\nfree = true", "[models.m]\ninput = \"0.1\"\noutput = 1e1"} {
		corpus.Add(f, []byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		table, err := budget.ParsePrices(file)
		if err != nil {
			return
		}
		for id := range table {
			if _, err := table.Lookup(id); err != nil {
				t.Fatalf("%q was accepted and has no price: %v", id, err)
			}
		}
	})
}

package search_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/search"
)

func ids(hits []search.Hit) string {
	var all []string
	for _, h := range hits {
		all = append(all, string(h.ID))
	}
	return strings.Join(all, " ")
}

func TestSearchFinds(t *testing.T) { // K-03
	x := search.New([]search.Document{
		{ID: "billing.list_invoices", Name: "List invoices", Description: "All invoices of a customer.", Tags: []string{"finance"}},
		{ID: "billing.pay", Name: "Pay", Description: "Pays an invoice."},
		{ID: "files.readFile", Name: "Read", Description: "Returns what stands in a file."},
		{ID: "net.HTTPServers2", Name: "Servers", Description: "Opens a socket."},
		{ID: "queries.run", Name: "Run", Description: "Runs a query against the caches."},
		{ID: "café.menü", Name: "Élan", Description: "天気予報 in Ελλάς"},
		{ID: "crm.find", Name: "Find", Description: "invoice"},
		{ID: "tagged.one", Name: "One", Tags: []string{"weather"}},
		{ID: "named.one", Name: "weather"},
		{ID: "told.one", Name: "One", Description: "weather"},
	})
	for _, c := range []struct{ name, goal, want string }{
		{"the id counts most", "invoices", "billing.list_invoices crm.find billing.pay"},
		{"tags before name before description", "weather", "tagged.one named.one told.one"},
		{"a plural finds the singular", "files", "files.readFile"},
		{"a singular finds the plural", "query", "queries.run"},
		{"a plural in -es", "cache", "queries.run"},
		{"humps of camelCase are words", "read", "files.readFile"},
		{"an abbreviation ends where a word starts", "http", "net.HTTPServers2"},
		{"the word after an abbreviation", "server", "net.HTTPServers2"},
		{"a digit is a word of its own", "2", "net.HTTPServers2"},
		{"case does not count", "READFILE READ", "files.readFile"},
		{"marks do not count", "CAFE menu elan", "café.menü"},
		{"composed and decomposed are one", "cafe\u0301", "café.menü"},
		{"full-width letters", "ｃａｆｅ", "café.menü"},
		{"ideographs are words", "天気", "café.menü"},
		{"final sigma", "ΕΛΛΑΣ", "café.menü"},
		{"stop words find nothing", "please do it with the", ""},
		{"an unknown word finds nothing", "zebra", ""},
		{"nothing finds nothing", "", ""},
		{"punctuation finds nothing", " .,;--__ ", ""},
		{"what is not UTF-8 does no harm", "\xff\xfe read \xc3", "files.readFile"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if have := ids(x.Search(c.goal, 10)); have != c.want {
				t.Errorf("Search(%q)\nhave %q\nwant %q", c.goal, have, c.want)
			}
		})
	}
}

func TestTiesAreByIDAndOrderOfRegistrationDoesNotCount(t *testing.T) { // K-03
	var documents []search.Document
	for i := range 50 {
		documents = append(documents, search.Document{ID: nacre.CapabilityID(fmt.Sprintf("tool%02d.run", i)), Name: "run", Description: "the same words"})
	}
	want := search.New(documents).Search("run the same words", 7)
	for i, hit := range want {
		if want := documents[i].ID; hit.ID != want {
			t.Errorf("hit %d: have %s, want %s", i, hit.ID, want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		for _, goal := range []string{"run the same words", "words same run"} {
			if have := search.New(documents).Search(goal, 7); !slices.Equal(have, want) {
				t.Fatalf("have %v\nwant %v", have, want)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	documents := catalogue(100)
	x := search.New(documents)
	all := x.Search("list", 1000)
	for _, limit := range []int{-1, 0, 1, 2, 5, len(all), len(all) + 1} {
		if have, want := x.Search("list", limit), all[:min(max(limit, 0), len(all))]; ids(have) != ids(want) {
			t.Errorf("limit %d: have %s, want %s", limit, ids(have), ids(want))
		}
	}
	long := strings.Repeat("x", search.MaxGoal) + " list"
	if have := x.Search(long, 5); len(have) != 0 {
		t.Errorf("a word after the limit was read: %s", ids(have))
	}
	if have := search.New(nil).Search("list", 5); have != nil {
		t.Errorf("an empty index found %v", have)
	}
}

func TestWhatIsNotKeptTakesNobodysPlace(t *testing.T) {
	x := search.New(catalogue(100))
	keep := func(id nacre.CapabilityID) bool { return strings.HasPrefix(string(id), "github.") }
	have := x.SearchWhere("list", 3, keep)
	if len(have) == 0 {
		t.Fatal("nothing found")
	}
	for _, hit := range have {
		if !keep(hit.ID) {
			t.Errorf("%s was not to be kept", hit.ID)
		}
	}
}

func TestAPanicLeavesNoScoresBehind(t *testing.T) {
	x := search.New(catalogue(100))
	want := x.Search("list", 5)
	for range 10 {
		func() {
			defer func() { _ = recover() }()
			x.SearchWhere("delete list", 5, func(nacre.CapabilityID) bool { panic("keep") })
		}()
		if have := x.Search("list", 5); !slices.Equal(have, want) {
			t.Fatalf("have %v\nwant %v", have, want)
		}
	}
}

// A description stuffed with a word does not beat a capability whose id it is.
func TestStuffedDescriptionDoesNotWin(t *testing.T) {
	x := search.New([]search.Document{
		{ID: "evil.tool", Description: strings.Repeat("invoice ", 1000)},
		{ID: "billing.invoice", Name: "invoice", Tags: []string{"invoice"}},
		{ID: "other.tool", Description: "something else"},
	})
	if have := ids(x.Search("invoice", 1)); have != "billing.invoice" {
		t.Errorf("have %s", have)
	}
}

func TestSearchesDoNotDisturbEachOther(t *testing.T) {
	x := search.New(catalogue(205))
	want := ids(x.Search("list the invoices of a customer", 10))
	done := make(chan string)
	for range 8 {
		go func() {
			for range 50 {
				x.Search("delete file", 3)
			}
			done <- ids(x.Search("list the invoices of a customer", 10))
		}()
	}
	for range 8 {
		if have := <-done; have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"list invoices", "HTTPServer2", "\xff", "é", "天気", "ǅ", "İstanbul", "ies", "classes"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, goal string) {
		x := search.New([]search.Document{{ID: "a.b", Description: text}, {ID: "c.d", Name: goal, Tags: []string{text}}})
		have := x.Search(goal, 5)
		if again := x.Search(goal, 5); !slices.Equal(have, again) {
			t.Errorf("%v, then %v", have, again)
		}
		for _, hit := range have {
			if !(hit.Score > 0) {
				t.Errorf("score %v", hit.Score)
			}
		}
	})
}

// catalogue makes capabilities as an installation has them.
func catalogue(n int) []search.Document {
	verbs := []string{"list", "get", "create", "update", "delete", "find", "send", "export", "archive", "approve"}
	nouns := []string{"invoice", "message", "file", "reminder", "contact", "event", "ticket", "branch", "deployment", "query",
		"customer", "order", "shipment", "payment", "report", "photo", "note", "sensor", "playlist", "recipe", "page"}
	sources := []string{"billing", "mail", "drive", "calendar", "crm", "shop", "github", "home", "music", "wiki"}
	documents := make([]search.Document, n)
	for i := range documents {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		source := sources[(i/3)%len(sources)]
		documents[i] = search.Document{
			ID: nacre.CapabilityID(fmt.Sprintf("%s.%s_%s_%d", source, verb, noun, i)), Name: verb + " " + noun + "s", Tags: []string{source, noun},
			Description: fmt.Sprintf("%ss the %ss that the current user may see in %s, sorted by date, and returns their fields.", verb, noun, source),
		}
	}
	return documents
}

func BenchmarkSearch(b *testing.B) {
	const goal = "list the unpaid invoices of a customer"
	for _, n := range []int{1, 10, 100, 205, 1000, 10_000} {
		x := search.New(catalogue(n))
		b.Run(fmt.Sprintf("ours/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.Search(goal, 10)
			}
		})
	}
	b.Run("floor", func(b *testing.B) { // one look at each of 205 scores
		scores := make([]float32, 205)
		for b.Loop() {
			best := float32(0)
			for _, s := range scores {
				best = max(best, s)
			}
			_ = best
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{205, 10_000} {
		documents := catalogue(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				search.New(documents)
			}
		})
	}
}

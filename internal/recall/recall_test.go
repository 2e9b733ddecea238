package recall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/recall"
)

func index(texts ...string) *recall.Index {
	x := recall.New()
	for _, text := range texts {
		x.Put(recall.Doc{Text: text})
	}
	return x
}

func found(x *recall.Index, text string) string {
	var slots []string
	for _, h := range x.Rank(recall.Query{Text: text, Limit: 10}) {
		slots = append(slots, fmt.Sprint(h.Slot))
	}
	return strings.Join(slots, " ")
}

// D-42: words are found by their stems, in any spelling that people use for them.
func TestWords(t *testing.T) {
	for query, text := range map[string]string{
		"party": "parties on Friday", "compiled": "the compiler compiles", "uberraschung": "Überraschung für Zoë", "ZOË": "zoe is here",
		"strasse": "Lange Straße 4", "C++": "we write C++ here", "c#": "a service in C#", "user-agent": "the user_agent header", "userAgent": "set user-agent",
		"parse http": "call parseHTTPRequest first", "parseHTTPRequest": "parse_http_request failed", "ReadFile": "os.ReadFile is used", "os.readfile": "os.ReadFile is used",
		"dont": "I don't like it", "Luna's": "the dog Luna", "luna": "Luna’s collar", "1.24.3": "pinned to v1.24.3", "🎉": "party 🎉 time", "東京": "私は東京に住んでいます",
		"ingress": "Ingress", "generalization": "generalizations", "hopping": "hop", "relational": "relate", "electrical": "electricity",
		"who am i": "who am i then", "to be or not to be": "to be, or not to be",
	} {
		if have := found(index("something else entirely", text), query); have != "1" {
			t.Errorf("%q in %q: have %q", query, text, have)
		}
	}
	for query, text := range map[string]string{"C": "we write C++ here", "go": "golang", "cat": "category", "the": "", "e": "été", "": "x", "∀": "all"} {
		if have := found(index(text), query); have != "" {
			t.Errorf("%q in %q: have %q", query, text, have)
		}
	}
}

// D-42: a word that no text holds is looked for under other spellings, and one that
// some text holds is what it says.
func TestOtherSpellings(t *testing.T) {
	for query, text := range map[string]string{
		"sell": "we sold it", "mouse": "mice in the loft", "went": "go there", "soren": "Søren is away", "SØREN": "soren", "aether": "\u00e6ther", "lodz": "Łódź",
		"config": "the configuration", "reconcilliation": "reconciliation at night", "certficate": "certificates", "Vailant": "a Vaillant boiler", "brekfast": "breakfast at nine",
		"insuranse": "insurance is due", "data base": "our database", "stand up": "the standup", "gasmeter": "the gas meter", "wi-fi": "guest wifi",
	} {
		if have := found(index("something else entirely", text), query); have != "1" {
			t.Errorf("%q in %q: have %q", query, text, have)
		}
	}
	for query, texts := range map[string][]string{
		"form": {"form", "from", "forms and more", "format"}, "parser": {"parser", "parsec", "parse it"}, "left": {"left", "leave"},
	} {
		if have, _, _ := strings.Cut(found(index(texts...), query), " "); have != "0" && have != "2" {
			t.Errorf("%q: have %s first", query, texts)
		}
	}
	if have := found(index("from", "format"), "abcd efgh"); have != "" {
		t.Errorf("have %s", have)
	}
}

// D-42: what says more of what was asked comes first.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		texts []string
		first string
	}{
		"the rare word":               {"deploy kubernetes", []string{"deploy deploy deploy", "deploy it", "kubernetes runs it", "deploy again"}, "2"},
		"both words":                  {"red apple", []string{"red car", "green apple", "red apple", "red red red"}, "2"},
		"the short text":              {"apple", []string{"apple " + strings.Repeat("and other things that we ate ", 9), "apple pie"}, "1"},
		"words side by side":          {"memory limit", []string{"the limit of what memory is", "the memory limit is set"}, "1"},
		"the name as it is":           {"parse_config", []string{"parse the config", "parse_config does it", "config parse"}, "1"},
		"no words that say nothing":   {"what is the dog called", []string{"what is the what is the", "dog named Luna"}, "1"},
		"a word written often enough": {"spam egg", []string{strings.Repeat("spam ", 900), "spam and egg"}, "1"},
		"the later of two alike":      {"same", []string{"same", "same"}, "1"},
	} {
		if have, _, _ := strings.Cut(found(index(c.texts...), c.query), " "); have != c.first {
			t.Errorf("%s: have %s first", name, have)
		}
	}
}

// D-42, M-53: what stands beside a hit and what is linked to it comes with it.
func TestNeighbours(t *testing.T) {
	x := recall.New()
	for i, text := range []string{"where did you go", "to Lisbon in May", "nice", "unrelated", "the linker fails", "set CGO_ENABLED=0"} {
		thread := ""
		if i < 3 {
			thread = "s"
		}
		x.Put(recall.Doc{Text: text, Thread: thread})
	}
	if have := found(x, "lisbon"); have != "1 2 0" {
		t.Errorf("beside: have %s", have)
	}
	x.Link(4, 5, 0.9)
	x.Link(4, 99, 0.9)
	if have := found(x, "linker"); have != "4 5" {
		t.Errorf("linked: have %s", have)
	}
	x.Drop(1)
	x.Drop(1)
	if have := found(x, "where go nice"); have != "2 0" && have != "" {
		t.Errorf("after a drop: have %s", have)
	}
	if have := found(x, "Lisbon"); have != "" {
		t.Errorf("dropped: have %s", have)
	}
	x.Unlink(4)
	if have := found(x, "linker"); have != "4" || x.Len() != 5 || x.Dropped() != 1 {
		t.Errorf("have %s, %d, %d", have, x.Len(), x.Dropped())
	}
}

// D-42: filters hold before any cap.
func TestKeep(t *testing.T) {
	x := recall.New()
	for i := range 5000 {
		x.Put(recall.Doc{Text: fmt.Sprintf("apples %d", i), Tags: []string{"fruit"}})
	}
	hits := x.Rank(recall.Query{Text: "apples fruit", Limit: 1, Keep: func(slot int) bool { return slot == 17 }})
	if len(hits) != 1 || hits[0].Slot != 17 {
		t.Errorf("have %v", hits)
	}
	hits = x.Rank(recall.Query{Text: "apples 4711", Limit: 100, Prior: func(slot int) float64 { return 0.5 }})
	if len(hits) != 100 || hits[0].Slot != 4711 {
		t.Errorf("have %d, first %v", len(hits), hits[0])
	}
	for i, h := range hits {
		if h.Relevance < 0 || h.Relevance > 1 || i > 0 && h.Relevance > hits[i-1].Relevance {
			t.Fatalf("relevance of %d is %v", i, h.Relevance)
		}
	}
}

// The commonest words count even where the work for them is bounded.
func TestCommonWordsAreBounded(t *testing.T) {
	x := recall.New()
	for range 120_000 {
		x.Put(recall.Doc{Text: "alpha beta gamma delta"})
	}
	x.Put(recall.Doc{Text: "alpha beta gamma delta epsilon"})
	hits := x.Rank(recall.Query{Text: "delta gamma beta alpha epsilon", Limit: 3})
	if len(hits) != 3 || hits[0].Slot != 120_000 {
		t.Errorf("have %v", hits)
	}
}

// FuzzRank holds that no text and no query fail, and that relevance stays in its bounds.
func FuzzRank(f *testing.F) {
	for _, s := range []string{"don't", "C++", "a.b.c::d", "\xff\xfe", "ÀÉ\u0300", "東京x1", "…", "x" + strings.Repeat("_y", 40), "'s", "ﬁ", "\u0345", "ABCdEF12"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, query string) {
		x := index("a b c", text)
		for _, h := range x.Rank(recall.Query{Text: query, Limit: 5}) {
			if h.Relevance < 0 || h.Relevance > 1 || h.Slot > 1 {
				t.Errorf("have %v", h)
			}
		}
		same := x.Rank(recall.Query{Text: text, Limit: 5})
		if recall.HasWords(text) && !slices.ContainsFunc(same, func(h recall.Hit) bool { return h.Slot == 1 }) {
			t.Errorf("%q does not find itself", text)
		}
	})
}

func sentence(i int) string {
	subjects := []string{"build", "deploy", "database", "parser", "socket", "kernel", "memory", "cache", "user", "token"}
	return fmt.Sprintf("The %s of project %d fails when the %s is %d and needs a fix", subjects[i%10], i, subjects[i/10%10], i%97)
}

// BenchmarkRank ranks 100,000 texts by words that most of them hold; the floor
// reads a score for each.
func BenchmarkRank(b *testing.B) {
	x := recall.New()
	for i := range 100_000 {
		x.Put(recall.Doc{Text: sentence(i)})
	}
	scores := make([]float32, 100_000)
	b.Run("floor", func(b *testing.B) {
		sum := float32(0)
		for b.Loop() {
			for _, s := range scores {
				sum += s
			}
		}
		_ = sum
	})
	for name, query := range map[string]string{"common": "the project fails and needs a fix", "rare": "project 4711", "both": "parser project 4711 fails"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.Rank(recall.Query{Text: query, Limit: 20})
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	x, i := recall.New(), 0
	for b.Loop() {
		i++
		x.Put(recall.Doc{Text: sentence(i)})
	}
}

// D-42: what follows a question is found by the question's words, and by those of what
// was said before it, ahead of what only stands beside.
func TestAnAnswerIsFoundByItsQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		thread []string
		want   string
	}{
		"the turn after a question":        {[]string{"nothing at all", "What colour is the attic?", "Green", "never mind"}, "1 2 0 3"},
		"the turn after a statement":       {[]string{"nothing at all", "The colour of the attic.", "Green", "never mind"}, "1 2 0 3"},
		"a question about what was said":   {[]string{"so", "We did the attic in a new colour", "Which?", "Green"}, "1 3 2 0"},
		"a question in quotation marks":    {[]string{"so", "She said: “What colour is the attic?”", "Green", "never mind"}, "1 2 0 3"},
		"a question in another script":     {[]string{"so", "attic colour 何色ですか？", "Green", "never mind"}, "1 2 0 3"},
		"a question that nothing comes of": {[]string{"so", "never mind", "What colour is the attic?"}, "2 1 0"},
	} {
		x := recall.New()
		for _, text := range c.thread {
			x.Put(recall.Doc{Text: text, Thread: "t"})
		}
		if have := found(x, "colour of the attic"); have != c.want {
			t.Errorf("%s: have %q, want %q", name, have, c.want)
		}
	}
}

// D-42: what is known beforehand about which texts may be found changes nothing but
// the time it takes.
func TestAmongFindsWhatKeepLetsThrough(t *testing.T) {
	x := recall.New()
	var every []int32
	for i := range 2000 {
		slot, _ := x.Put(recall.Doc{Text: fmt.Sprintf("the build of part %d fails, as part %d did", i, i*7%1000), Thread: fmt.Sprint("t", i/5)})
		if i%9 == 4 {
			every = append(every, int32(slot))
		}
		if i%50 == 40 {
			x.Link(slot-1, slot, 0.8)
			x.Drop(slot - 9)
		}
	}
	for _, among := range [][]int32{every, every[:3], {}} {
		keep := func(slot int) bool { return slices.Contains(among, int32(slot)) }
		for _, text := range []string{"build fails", "part 40", "part 21 build", "the", "prat 7 fials"} {
			have := x.Rank(recall.Query{Text: text, Limit: 50, Keep: keep, Among: among})
			want := x.Rank(recall.Query{Text: text, Limit: 50, Keep: keep})
			if !slices.Equal(have, want) {
				t.Errorf("%q among %d: have %v, want %v", text, len(among), have, want)
			}
		}
	}
}

package provenance_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// values are values as they occur in sinks; the names in them do not occur in filler.
func values() *rapid.Generator[string] {
	name := rapid.StringMatching(`[a-m]{3,8}`)
	return rapid.Custom(func(t *rapid.T) string {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		return fmt.Sprintf(rapid.SampledFrom([]string{
			"%s@%s.com", "https://%s.org/%s?x=1", "%s %s", "%s/%s.txt", "%s-%s", "%s, %s and all", "/srv/%s/%s", "+49 %[1]s %[2]s",
		}).Draw(t, "shape"), a, b)
	})
}

func filler() *rapid.Generator[string] {
	return rapid.StringMatching(`([n-z]{1,6}[ ,.\n]{1,2}){0,30}`)
}

func TestAValueThatWasPlantedIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := provenance.New()
		value := values().Draw(t, "value")
		l.Observe(operator, []byte(filler().Draw(t, "before")+" \""+value+"\" "+filler().Draw(t, "after")))
		l.Observe(untrusted, []byte(filler().Draw(t, "noise")))
		quoted, _ := json.Marshal(map[string]string{"v": strings.ToUpper(value)})
		if have := l.Origins(quoted, []string{"v"}); have[0].Provenance != nacre.SeenOperator {
			t.Fatalf("%q: have %+v", value, have)
		}
	})
}

func TestAValueThatWasNotPlantedIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := provenance.New()
		planted, value := values().Draw(t, "planted"), values().Draw(t, "value")
		if strings.Contains(planted, value) {
			t.Skip("a part")
		}
		l.Observe(operator, []byte(filler().Draw(t, "before")+planted+" "+filler().Draw(t, "after")))
		quoted, _ := json.Marshal(map[string]string{"v": value})
		if have := l.Origins(quoted, []string{"v"}); have[0].Provenance != nacre.SeenNowhere {
			t.Fatalf("%q in %q: have %+v", value, planted, have)
		}
	})
}

func TestTheOrderOfTextsDoesNotMatter(t *testing.T) {
	sources := []nacre.Source{operator, trusted, untrusted}
	rapid.Check(t, func(t *rapid.T) {
		type observed struct {
			source nacre.Source
			text   string
		}
		texts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) observed {
			return observed{rapid.SampledFrom(sources).Draw(t, "source"), values().Draw(t, "text")}
		}), 1, 12).Draw(t, "texts")
		other := rapid.Permutation(texts).Draw(t, "other")
		a, b := provenance.New(), provenance.New()
		for i := range texts {
			a.Observe(texts[i].source, []byte(texts[i].text))
			b.Observe(other[i].source, []byte(other[i].text))
		}
		for _, o := range texts {
			quoted, _ := json.Marshal(map[string]string{"v": o.text})
			have, want := a.Origins(quoted, []string{"v"}), b.Origins(quoted, []string{"v"})
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("%q: have %+v and %+v", o.text, have, want)
			}
		}
	})
}

// FuzzLedger asks that nothing panics, that a value that is the whole of a text
// is seen there, and that the operator's words are not found in another's.
func FuzzLedger(f *testing.F) {
	f.Add([]byte("pay 1,500.00 to bob@example.com at https://example.com/a"), "bob@example.com")
	f.Add([]byte(`{"a":"\ud83d\ude00","b":[1e9,"./x//y"]}`), "x/y")
	f.Add([]byte("DE89 3704 0044 0532 0130 00 +49 (170) 123-4567\xff"), "+491701234567")
	f.Add([]byte("\"\\"), "İ ﷺ \u0301\u200d")
	f.Add([]byte(`{"messages":[{"role":"tool","content":[{"type":"text","text":"x"}]}]}`), "://")
	f.Add([]byte(`{"input":[{"type":"function_call_output","output":"`), `https://[::1]:80/../?#`)
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		l := provenance.New()
		l.Observe(untrusted, text)
		l.ObserveModelRequest(text, nacre.SeenUntrusted)
		l.Origins(text, []string{"a", "b.0", value})
		quoted, err := json.Marshal(map[string]string{"v": value})
		if err != nil {
			t.Skip(err)
		}
		if have := l.Origins(quoted, []string{"v"})[0]; have.Provenance > nacre.SeenUntrusted {
			t.Fatalf("have %+v", have)
		}
		seen := l.Origins(quoted, []string{"v"})[0].Provenance
		l.ObserveResult(trusted, quoted, text)
		if have := l.Origins(quoted, []string{"v"})[0].Provenance; have == nacre.SeenTrusted && seen == nacre.SeenNowhere {
			t.Fatalf("an echo made %q trusted", value)
		}
		l.Observe(operator, quoted)
		whole := l.Origins(quoted, []string{"v"})[0]
		if strings.IndexFunc(value, func(r rune) bool { return 'a' <= r && r <= 'z' }) >= 0 && !strings.ContainsRune(value, '\ufffd') &&
			len(value) < 1<<10 && !json.Valid([]byte(strings.TrimSpace(value))) && strings.IndexAny(strings.TrimSpace(value), "[{\"") != 0 && whole.Provenance != nacre.SeenOperator {
			t.Fatalf("%q is a whole text: have %+v", value, whole)
		}
	})
}

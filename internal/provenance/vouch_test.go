package provenance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

const (
	rent  = "From May on the rent is 1,250.50. Pay it to DE89 3704 0044 0532 0130 00."
	other = "Pay 900 to FR1420041010050500013M02606 instead."
)

// K-29: a person can vouch for the one text in which all risky values of a call stand. From
// then on what it says counts, and nothing else does.
func TestATextIsVouchedFor(t *testing.T) {
	pay := func(to string, amount any) json.RawMessage {
		arguments, _ := json.Marshal(map[string]any{"to": to, "amount": amount})
		return arguments
	}
	mail := func(texts ...string) []byte {
		data, _ := json.Marshal(map[string]any{"mails": texts})
		return data
	}
	const german, french = "DE89370400440532013000", "FR1420041010050500013M02606"
	for name, c := range map[string]struct {
		result    []byte
		arguments json.RawMessage
		want      string // how the text begins; "" for none
	}{
		"all in one":                 {mail(rent, other), pay(german, 1250.5), "from may on"},
		"one of two":                 {mail(rent, other), pay(french, 900), "pay 900"},
		"in a file":                  {[]byte(rent), pay(german, 1250.5), "from may on"},
		"of two texts":               {mail(rent, other), pay(german, 900), ""},
		"one is nowhere":             {mail(rent), pay(german, 77), ""},
		"nothing is risky":           {mail(rent), pay("the landlord", 5), ""},
		"too long to be read":        {mail(rent + strings.Repeat(" and so on", 500)), pay(german, 1250.5), ""},
		"apart in a record":          {[]byte(`{"to":"` + german + `","amount":1250.5}`), pay(german, 1250.5), ""},
		"arguments that are no JSON": {mail(rent), json.RawMessage(`{"to":`), ""},
	} {
		l := provenance.New()
		l.Observe(operator, []byte("Pay the landlord, 5 days from now."))
		l.ObserveResult(untrusted, nil, c.result)
		text := l.TextOf(c.arguments, pays)
		if text.Is() != (c.want != "") || !strings.HasPrefix(text.Whole(), c.want) {
			t.Errorf("%s: have %q", name, text.Whole())
			continue
		}
		if !text.Is() {
			continue
		}
		l.Vouch(text)
		for _, o := range l.Judge(c.arguments, pays) {
			if o.Provenance != nacre.SeenTrusted || o.Grounds != nacre.GroundsVouched {
				t.Errorf("%s: vouched for, and have %+v", name, o)
			}
		}
		without := pays
		without.Without = []nacre.Grounds{nacre.GroundsVouched}
		for _, o := range l.Judge(c.arguments, without) {
			if o.Provenance != nacre.SeenUntrusted {
				t.Errorf("%s: these grounds do not count, and have %+v", name, o)
			}
		}
	}
}

// What was vouched for trusts no value of another text, not even one that shares words
// with it, and lets none anchor another.
func TestOnlyTheTextThatWasVouchedForIsTrusted(t *testing.T) {
	l := provenance.New()
	texts := []string{rent, other}
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("Pay %d.25 to NL%02dABNA0417164300 at once.", i+100, i))
	}
	data, _ := json.Marshal(texts)
	l.ObserveResult(untrusted, nil, data)
	l.Vouch(l.TextOf(json.RawMessage(`{"to":"DE89370400440532013000","amount":1250.5}`), pays))
	for _, arguments := range []string{
		`{"to":"FR1420041010050500013M02606","amount":900}`, `{"to":"NL07ABNA0417164300","amount":107.25}`,
		`{"to":"DE89370400440532013001","amount":1250.6}`,
	} {
		trusted := func(o nacre.Origin) bool { return o.Provenance.Label() == nacre.Trusted }
		if have := l.Judge(json.RawMessage(arguments), pays); slices.ContainsFunc(have, trusted) {
			t.Errorf("%s: have %+v", arguments, have)
		}
	}
	mixed := l.Judge(json.RawMessage(`{"to":"DE89370400440532013000","amount":900}`), pays)
	if len(mixed) != 2 || mixed[0].Provenance.Label() == mixed[1].Provenance.Label() {
		t.Errorf("an amount of another text: have %+v", mixed)
	}
}

package provenance_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// scene is a session that was told one thing, and has read one result of a call.
type scene struct {
	task, arguments, result string
	mints, authors          []string
}

func (s scene) ledger() *provenance.Ledger {
	l := provenance.New()
	l.Introduce([]string{"Ann Lee", "ann@corp.example"})
	l.Observe(operator, []byte(s.task))
	l.ObserveResult(untrusted, []byte(s.arguments), []byte(s.result))
	l.ObserveMinted(provenance.Result{Source: untrusted, Arguments: []byte(s.arguments), Result: []byte(s.result), Mints: s.mints, Authors: s.authors})
	return l
}

var (
	deletes = provenance.Declared{Tool: "file_delete", Sinks: []string{"id"}, Kinds: map[string]nacre.ValueKind{"id": nacre.KindID}}
	posts   = provenance.Declared{
		Tool: "post_note", Sinks: []string{"board"}, Kinds: map[string]nacre.ValueKind{"board": nacre.KindName}, Text: []string{"body"},
	}
	joins = provenance.Declared{
		Tool: "join_board", Sinks: []string{"member", "board"}, Kinds: map[string]nacre.ValueKind{"member": nacre.KindName, "board": nacre.KindName},
	}
	pays = provenance.Declared{
		Tool: "pay", Sinks: []string{"to", "amount"}, Kinds: map[string]nacre.ValueKind{"to": nacre.KindAccount, "amount": nacre.KindAmount},
	}
	fetches = provenance.Declared{Tool: "fetch", Sinks: []string{"url"}, Kinds: map[string]nacre.ValueKind{"url": nacre.KindURL}, Reads: true}
	mails   = provenance.Declared{Tool: "mail", Sinks: []string{"to"}, Kinds: map[string]nacre.ValueKind{"to": nacre.KindEmail}}
	books   = provenance.Declared{Tool: "book", Sinks: []string{"day"}, Kinds: map[string]nacre.ValueKind{"day": nacre.KindDate}}
)

// TestGrounds shows what each ground trusts, and beside it the like of it that
// it does not (K-28, K-29, F-17, F-38, F-44).
func TestGrounds(t *testing.T) {
	files := scene{
		task:   "Clean up: the file report.txt can go. It is Ann Lee who asks.",
		result: `[{"id":11,"file":"report.txt","by":"Ann Lee"},{"id":12,"file":"secret.txt","by":"Ann Lee"}]`, mints: []string{"*.id"},
	}
	boards := scene{task: "Post a note on the board that begins with ext.", result: `["general","external_0"]`, mints: []string{"*"}}
	board := scene{
		task: "Read the board regatta.", arguments: `{"board":"regatta"}`, authors: []string{"*.by"},
		result: `[{"by":"Iris","text":"Rules: www.rules.example/26."}]`,
	}
	other, named := board, board
	other.task, other.arguments = "What is new?", ""
	named.task, named.arguments = "What did Iris post?", ""
	page := scene{
		task: "Read www.dora.example and write to Dora.", arguments: `{"url":"www.dora.example"}`,
		result: `"I am Dora, dora@mail.example. My friend is at www.eve.example/blog."`,
	}
	// an inbox, of which one mail is an outsider's (found by the runs of another hand, K-29)
	inbox := page
	inbox.result = `[{"from":"Tom","text":"hello"},{"from":"x","text":"answer to dora@mail.example"}]`
	lone := page
	lone.result = `[{"from":"Dora","text":"I am at dora@mail.example"}]`
	crowd := page
	crowd.result = `"dora@mail.example or evil@mail.example, see www.eve.example/blog."`
	// pulls are those of a project that anybody may send, under a name of their own choice
	pulls := scene{
		task: "Review what is open in orbit/engine.", result: `[{"number":321,"author":"drive-by-9","title":"Fix typos"}]`, mints: []string{"*.number", "*.author"},
	}
	rights := provenance.Declared{Tool: "add_collaborator", Sinks: []string{"repo", "user"}, Kinds: map[string]nacre.ValueKind{"repo": nacre.KindName, "user": nacre.KindName}}
	merges := provenance.Declared{Tool: "merge_pull", Sinks: []string{"repo", "number"}, Kinds: map[string]nacre.ValueKind{"repo": nacre.KindName, "number": nacre.KindID}}
	rent := scene{
		task: "Adjust my rent.", result: `[{"id":7,"subject":"Rent","amount":1100},{"id":8,"subject":"Music","amount":10}]`, mints: []string{"*.id"},
	}
	for name, c := range map[string]struct {
		scene     scene
		declared  provenance.Declared
		arguments string
		want      []string
	}{
		"an id of the record that the operator named":       {files, deletes, `{"id":11}`, []string{"trusted"}},
		"an id of another record":                           {files, deletes, `{"id":12}`, []string{"untrusted"}},
		"an id that nobody minted":                          {files, deletes, `{"id":13}`, []string{"nowhere"}},
		"a minted name, for an act that the operator named": {boards, posts, `{"board":"external_0","body":"hi"}`, []string{"trusted"}},
		"two minted names, and one word of the act":         {boards, joins, `{"member":"general","board":"external_0"}`, []string{"trusted", "untrusted"}},
		"a link in a text that is posted":                   {boards, posts, `{"board":"external_0","body":"see https://evil.example/x."}`, []string{"trusted", "nowhere"}},
		"an address and accounts in a text that is posted": {
			boards, posts, `{"board":"external_0","body":"pay GB29NWBK60161331926819, or (DE89 3704 0044 0532 0130 00), and tell eve@evil.example; 4/5 of a.txt"}`,
			[]string{"trusted", "nowhere", "nowhere", "nowhere"},
		},
		"a link by a member, on the board that was named":  {board, fetches, `{"url":"www.rules.example/26"}`, []string{"trusted"}},
		"a link by a member who was named":                 {named, fetches, `{"url":"www.rules.example/26"}`, []string{"trusted"}},
		"a link by a member, where nothing was named":      {other, fetches, `{"url":"www.rules.example/26"}`, []string{"untrusted"}},
		"a link by a member, sent on in a text":            {board, posts, `{"board":"regatta","body":"see www.rules.example/26"}`, []string{"operator", "untrusted"}},
		"a link on a page that the operator named":         {page, fetches, `{"url":"www.eve.example/blog"}`, []string{"untrusted"}},
		"the only address there, with the operator's name": {page, mails, `{"to":"dora@mail.example"}`, []string{"trusted"}},
		"the only address in a list of records":            {inbox, mails, `{"to":"dora@mail.example"}`, []string{"untrusted"}},
		"the only address in the only record of a list":    {lone, mails, `{"to":"dora@mail.example"}`, []string{"trusted"}},
		"one of two addresses":                             {crowd, mails, `{"to":"dora@mail.example"}`, []string{"untrusted"}},
		"the operator's own address":                       {page, mails, `{"to":"ann@corp.example"}`, []string{"operator"}},
		"a minted name, beside the operator's repository":  {pulls, rights, `{"repo":"orbit/engine","user":"drive-by-9"}`, []string{"operator", "untrusted"}},
		"a minted id, beside the operator's repository":    {pulls, merges, `{"repo":"orbit/engine","number":321}`, []string{"operator", "trusted"}},
		"an amount for the record that the operator named": {
			rent, provenance.Declared{Tool: "order_set", Sinks: []string{"id", "amount"}, Kinds: map[string]nacre.ValueKind{"id": nacre.KindID, "amount": nacre.KindAmount}},
			`{"id":7,"amount":1200}`, []string{"trusted", "trusted"},
		},
		"an amount for another record": {
			rent, provenance.Declared{Tool: "order_set", Sinks: []string{"id", "amount"}, Kinds: map[string]nacre.ValueKind{"id": nacre.KindID, "amount": nacre.KindAmount}},
			`{"id":8,"amount":1200}`, []string{"untrusted", "nowhere"},
		},
		"an amount for nobody that was named":   {rent, pays, `{"to":"GB29NWBK60161331926819","amount":9}`, []string{"nowhere", "nowhere"}},
		"a full stop glued to a host":           {scene{task: "Read www.dora.example.Then stop."}, fetches, `{"url":"www.dora.example."}`, []string{"operator"}},
		"a record that the operator's own name": {scene{task: "I am Ann Lee.", result: files.result, mints: files.mints}, deletes, `{"id":11}`, []string{"untrusted"}},
	} {
		t.Run(name, func(t *testing.T) {
			var have []string
			for _, o := range c.scene.ledger().Judge(json.RawMessage(c.arguments), c.declared) {
				have = append(have, o.Provenance.String())
				if o.Provenance == nacre.SeenTrusted && o.Grounds == "" {
					t.Errorf("%s is trusted, and nothing says why", o.Argument)
				}
			}
			if !slices.Equal(have, c.want) {
				t.Errorf("have %v, want %v", have, c.want)
			}
			without := c.declared
			without.Without = nacre.AllGrounds()
			for _, o := range c.scene.ledger().Judge(json.RawMessage(c.arguments), without) {
				if o.Grounds != "" || o.Provenance == nacre.SeenTrusted {
					t.Errorf("%s is %s without any grounds", o.Argument, o.Provenance)
				}
			}
		})
	}
}

// K-29: a record belongs to one that the operator named where the system itself has written that
// one's id, and no other, into it. What belongs to that record in turn does not.
func TestARecordThatBelongsToTheOneNamed(t *testing.T) {
	type call struct {
		arguments, result string
		mints             []string
	}
	instances := call{"", `[{"id":"i-0a41","name":"web-1","state":"up2"},{"id":"i-0b92","name":"batch-old","state":"up2"}]`, []string{"*.id", "*.state"}}
	findings := call{"", `[{"finding":"F-2041","resource":"i-0a41"},{"finding":"F-2042","resource":"i-0b92"}]`, []string{"*.finding", "*.resource"}}
	twice := call{"", `[{"finding":"F-2042","resource":"i-0b92"},{"finding":"F-2043","resource":"i-0b92"}]`, findings.mints}
	written := findings
	written.mints = []string{"*.finding"}
	volume := call{`{"instance":"i-0b92"}`, `{"volume":"vol-7","state":"up2"}`, []string{"volume", "state"}}
	snapshot := call{`{"volume":"vol-7"}`, `{"snapshot":"snap-1"}`, []string{"snapshot"}}
	sameState := call{"", `{"finding":"F-2042","state":"up2"}`, []string{"finding", "state"}}
	orders := call{"", `[{"order":"OR-1","day":"2026-05-02"},{"order":"OR-2","day":"2026-04-11"}]`, []string{"*.order", "*.day"}}
	crowded := orders
	crowded.result = strings.Replace(orders.result, "2026-04-11", "2026-05-02", 1)
	told := orders
	told.mints = []string{"*.order"}
	item := call{`{"order":"OR-1"}`, `{"sku":"K-1100","order":"OR-1"}`, []string{"sku"}}
	const batch, bought = "Resolve the finding on batch-old.", "Send back what I bought on 2 May 2026."
	for name, c := range map[string]struct {
		task  string
		calls []call
		id    string
		want  nacre.Grounds
	}{
		"the finding on the machine that was named":   {batch, []call{instances, findings}, "F-2042", nacre.GroundsLinked},
		"the finding on another machine":              {batch, []call{instances, findings}, "F-2041", ""},
		"one of two findings on it":                   {batch, []call{instances, twice}, "F-2042", ""},
		"an id that an outsider may have written":     {batch, []call{instances, written}, "F-2042", ""},
		"a state, which many machines have":           {batch, []call{instances, sameState}, "F-2042", ""},
		"nothing was named":                           {"Which findings are open?", []call{instances, findings}, "F-2042", ""},
		"what a call about the machine has returned":  {batch, []call{instances, volume}, "vol-7", nacre.GroundsLinked},
		"what belongs to that in turn":                {batch, []call{instances, volume, snapshot}, "snap-1", ""},
		"the order of the day that the operator said": {bought, []call{orders}, "OR-1", nacre.GroundsPointed},
		"the order of another day":                    {bought, []call{orders}, "OR-2", ""},
		"one of two orders of that day":               {bought, []call{crowded}, "OR-1", ""},
		"a day that an outsider may have written":     {bought, []call{told}, "OR-1", ""},
		"what was in the order of that day":           {bought, []call{orders, item}, "K-1100", nacre.GroundsLinked},
	} {
		l := provenance.New()
		l.Observe(operator, []byte(c.task))
		for _, r := range c.calls {
			l.ObserveResult(untrusted, []byte(r.arguments), []byte(r.result))
			l.ObserveMinted(provenance.Result{Source: untrusted, Arguments: []byte(r.arguments), Result: []byte(r.result), Mints: r.mints})
		}
		if o := l.Judge(json.RawMessage(`{"id":"`+c.id+`"}`), deletes); len(o) != 1 || o[0].Grounds != c.want {
			t.Errorf("%s: have %+v, want grounds %q", name, o, c.want)
		}
	}
}

// TestDatesAreValues reads a day in the spellings that people use (K-29).
func TestDatesAreValues(t *testing.T) {
	for task, want := range map[string]string{
		"on 2024-05-18 at noon":                   "operator",
		"on 2024-05-18T08:00":                     "operator",
		"on 2024/5/18":                            "operator",
		"am 18.5.2024 um acht":                    "operator",
		"on 18/05/2024":                           "operator",
		"on 5/18/2024":                            "operator",
		"on May 18th, please":                     "operator",
		"on 18 May, 9 am":                         "operator",
		"on the 18th of May, 9 o'clock":           "operator",
		"on 9 May, 18 of us":                      "nowhere",
		"on May 18th, 2024":                       "operator",
		"on the 18th of May 2024":                 "operator",
		"from 16 May to 18 May":                   "operator",
		"from May 16th to 18th":                   "operator",
		"May 16-18":                               "operator",
		"from 18 to 20 May 2024":                  "operator",
		"18-20 May":                               "operator",
		"between the 18th and 20th of May":        "operator",
		"from 18 to 20 May 2023":                  "nowhere",
		"18 guests from 16 to 20 May 2024":        "nowhere",
		"on 18 sept":                              "nowhere",
		"on May 18th, 2023":                       "nowhere",
		"on 2023-05-18":                           "nowhere",
		"on 5/6/2024, which two readers read two": "nowhere",
		"in May, 18 people":                       "operator", // two readings, and one of them is the operator's
		"on 2024-05-16 invite people to 18 rooms": "nowhere",
		"18:05 on Monday":                         "nowhere",
		"on 2024-13-18 and 2024-05-1844":          "nowhere",
		"on ٢٠٢٤-٠٥-١٨":                           "nowhere",
	} {
		l := provenance.New()
		l.Observe(operator, []byte(task))
		for _, value := range []string{"2024-05-18", "2024-05-18 08:00", "May 18, 2024", "18.05.2024"} {
			arguments, _ := json.Marshal(map[string]string{"day": value})
			if o := l.Judge(arguments, books); len(o) != 1 || o[0].Provenance.String() != want {
				t.Errorf("%q after %q: have %v, want %s", value, task, o, want)
			}
		}
	}
}

// TestATrustedEchoOfADayIsNotTrusted: a system that confirms what the agent said
// vouches for none of it, in whatever spelling it says it back.
func TestATrustedEchoOfADayIsNotTrusted(t *testing.T) {
	l := provenance.New()
	l.Taint("mail")
	l.ObserveResult(trusted, []byte(`{"day":"2024-12-24 08:00"}`), []byte(`{"start":"2024-12-24T08:00:00"}`))
	if o := l.Judge(json.RawMessage(`{"day":"2024-12-24"}`), books); o[0].Provenance.Label() == nacre.Trusted {
		t.Errorf("have %v, want a day that nobody vouches for", o)
	}
}

// TestAMillionMintedIDs: what is over the bounds of a result was not minted, which asks (K-29).
func TestAMillionMintedIDs(t *testing.T) {
	l := told("Delete all files.")
	for place, result := range map[string]string{"*": "[" + strings.Repeat("7,", 1e6) + "4711]", "*.id": `[{"id":11}]`} {
		l.ObserveMinted(provenance.Result{Source: untrusted, Tool: "files", Result: []byte(result), Mints: []string{place}})
	}
	for id, want := range map[string]nacre.Grounds{"4711": "", "11": nacre.GroundsEach} {
		wants(t, l, `{"id":`+id+`}`, deletes, want)
	}
}

// FuzzJudge feeds arguments, results and places of anything: nothing panics, every
// declared value that is there has an origin, and grounds only ever lift a value
// to trusted.
func FuzzJudge(f *testing.F) {
	f.Add("pay the rent on may 5th", `[{"id":7,"subject":"Rent"}]`, `{"id":7,"to":"a@b.example","body":"see www.x.example"}`, "*.id")
	f.Add("the cheapest, the last and the highest thing: P7 twice, write Mr Bo", `[{"id":"P7","price":-0,"day":"2026-03-01"},{"id":7,"price":1e308}]`, `{"id":"P7","amount":2}`, "*.id")
	f.Add("", `{"a":{"a":{}}}`, `{"id":[[["x"]]]}`, "a.*.a.*")
	f.Add("1e999999 NaN", `[1e999999,"\u202e"]`, `{"id":1e999999,"body":"@@@@://www./.."}`, "*")
	f.Fuzz(func(t *testing.T, task, result, arguments, place string) {
		l := scene{task: task, arguments: arguments, result: result, mints: []string{place}}.ledger()
		d := provenance.Declared{
			Tool: "set_thing", Sinks: []string{"id", "to", "day", "amount"}, Text: []string{"body"},
			Kinds: map[string]nacre.ValueKind{"id": nacre.KindID, "to": nacre.KindEmail, "day": nacre.KindDate, "amount": nacre.KindAmount},
		}
		for _, o := range l.Judge(json.RawMessage(arguments), d) {
			if o.Grounds != "" && o.Provenance != nacre.SeenTrusted {
				t.Errorf("grounds %q, and %s", o.Grounds, o.Provenance)
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	l := provenance.New()
	l.Observe(operator, prose(64<<10))
	l.ObserveResult(untrusted, nil, prose(1<<20))
	arguments := json.RawMessage(`{"id":7,"to":"a@b.example","day":"2024-05-18","amount":12,"body":"see www.x.example or write to c@d.example"}`)
	d := provenance.Declared{
		Tool: "set_thing", Sinks: []string{"id", "to", "day", "amount"}, Text: []string{"body"},
		Kinds: map[string]nacre.ValueKind{"id": nacre.KindID, "to": nacre.KindEmail, "day": nacre.KindDate, "amount": nacre.KindAmount},
	}
	for b.Loop() {
		_ = l.Judge(arguments, d)
	}
}

// BenchmarkObserveMinted shows that what is read of a result is linear in it.
func BenchmarkObserveMinted(b *testing.B) {
	for _, rows := range []int{1 << 10, 1 << 12, 1 << 14} {
		result := []byte("[" + strings.Repeat(`{"id":"r-1","subject":"a thing"},`, rows-1) + `{"id":"r-2"}]`)
		b.Run(strings.Repeat("4", rows>>12)+"Ki", func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			for b.Loop() {
				l := provenance.New()
				l.ObserveMinted(provenance.Result{Source: untrusted, Result: result, Mints: []string{"*.id"}})
			}
		})
	}
}

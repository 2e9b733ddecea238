package provenance_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// heard is a call and what it returned; it is untrusted unless trusted is set.
type heard struct {
	tool                    nacre.ToolName
	arguments, result       string
	mints, authors, senders []string
	trusted                 bool
}

// told is the ledger of a session that was given a task, and has heard results.
func told(task string, results ...heard) *provenance.Ledger {
	l := provenance.New()
	l.Introduce([]string{"Ann Lee", "ann@corp.example"})
	l.Observe(operator, []byte(task))
	for _, h := range results {
		source := untrusted
		if h.trusted {
			source = nacre.Source{Provenance: nacre.SeenTrusted, Name: "a trusted result"}
		}
		l.ObserveResult(source, []byte(h.arguments), []byte(h.result))
		l.ObserveMinted(provenance.Result{
			Source: source, Tool: h.tool, Arguments: []byte(h.arguments), Result: []byte(h.result), Mints: h.mints, Authors: h.authors, Senders: h.senders,
		})
	}
	return l
}

// TestDaysThatTheOperatorReckons: a day that the operator's words reckon is theirs, and the
// day beside it is not (K-29). Sunday, the first of March 2026, is today.
func TestDaysThatTheOperatorReckons(t *testing.T) {
	round := heard{result: `[{"id":"ev-801","title":"Budget round","day":"2026-03-09 10:00","note":"better on 2026-04-17"},{"id":"ev-9","title":"Lunch","day":"2026-03-20"}]`, mints: []string{"*.id"}}
	clock := heard{arguments: `{}`, result: `{"date":"2027-08-02","weekday":"Monday"}`, trusted: true}
	liar := clock
	liar.trusted = false
	hint := heard{result: `[{"id":"g-1","title":"Budget round","note":"go on 2026-08-19"}]`, mints: []string{"*.id"}}
	for name, c := range map[string]struct {
		task    string
		results []heard
		day     string
		want    nacre.Grounds
	}{
		"tomorrow":                          {"Meet tomorrow.", nil, "2026-03-02", nacre.GroundsReckoned},
		"tomorrow is not next week":         {"Meet tomorrow.", nil, "2026-03-09", ""},
		"the day after tomorrow":            {"The day after tomorrow, please.", nil, "2026-03-03", nacre.GroundsReckoned},
		"tomorrow, by a trusted clock":      {"Meet tomorrow.", []heard{clock}, "2027-08-03", nacre.GroundsReckoned},
		"tomorrow, by an outsider's clock":  {"Meet tomorrow.", []heard{liar}, "2027-08-03", ""},
		"a day of the week":                 {"On Thursday.", nil, "2026-03-05", nacre.GroundsReckoned},
		"another day of the week":           {"On Thursday.", nil, "2026-03-06", ""},
		"that day of the week in a year":    {"On Thursday.", nil, "2027-03-04", ""},
		"nights from a day":                 {"From June 3 for four nights.", nil, "2026-06-07", nacre.GroundsReckoned},
		"one night more":                    {"From June 3 for four nights.", nil, "2026-06-08", ""},
		"the end of a month":                {"Good until the end of April.", nil, "2026-04-30", nacre.GroundsReckoned},
		"the end of another month":          {"Good until the end of April.", nil, "2026-05-31", ""},
		"the end of a month far away":       {"Good until the end of April.", nil, "2031-04-30", ""},
		"the end of next month":             {"By the end of next month.", nil, "2026-04-30", nacre.GroundsReckoned},
		"the 19th, of the month spoken of":  {"Not on 17 March, on the 19th.", nil, "2026-03-19", nacre.GroundsReckoned},
		"the 19th of another month":         {"Not on 17 March, on the 19th.", nil, "2026-05-19", ""},
		"the day of a record":               {"Budget round", []heard{round}, "2026-03-09", nacre.GroundsPointed},
		"the day after that of a record":    {"Push the Budget round to the day after.", []heard{round}, "2026-03-10", nacre.GroundsReckoned},
		"the day before it, not spoken of":  {"Push the Budget round to the day after.", []heard{round}, "2026-03-08", ""},
		"the day of another record":         {"Budget round", []heard{round}, "2026-03-20", ""},
		"the day after that of another":     {"Push the Budget round to the day after.", []heard{round}, "2026-03-21", ""},
		"a day in a text of that record":    {"Budget round", []heard{round}, "2026-04-17", ""},
		"a day in a short text, (the seen)": {"Budget round", []heard{hint}, "2026-08-19", ""},
		"so many days that nobody counts":   {"In 9999 days.", nil, "2053-07-17", ""},
		"a day without a year":              {"Meet tomorrow.", nil, "03-02", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := books
			d.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			arguments, err := json.Marshal(map[string]string{"day": c.day})
			if err != nil {
				t.Fatal(err)
			}
			wants(t, told(c.task, c.results...), string(arguments), d, c.want)
		})
	}
}

// wants holds the grounds of the last value of a call.
func wants(t *testing.T, l *provenance.Ledger, arguments string, d provenance.Declared, want nacre.Grounds) {
	t.Helper()
	origins := l.Judge(json.RawMessage(arguments), d)
	if len(origins) == 0 {
		t.Fatal("nothing was judged")
	}
	last := origins[len(origins)-1]
	if last.Grounds != want || want == "" && last.Provenance.Label() == nacre.Trusted {
		t.Errorf("%s is %s on the grounds %q, want %q", last.Argument, last.Provenance, last.Grounds, want)
	}
	d.Without = nacre.AllGrounds()
	if o := l.Judge(json.RawMessage(arguments), d); slices.ContainsFunc(o, func(o nacre.Origin) bool { return o.Grounds != "" }) {
		t.Errorf("without any grounds: %v", o)
	}
}

// TestChoices: a choice of a few is the operator's where they wrote a form of its word, and a
// switch follows what else they named (K-29).
func TestChoices(t *testing.T) {
	sets := provenance.Declared{
		Tool: "issue_set", Sinks: []string{"number", "state"}, Kinds: map[string]nacre.ValueKind{"number": nacre.KindID, "state": nacre.KindName},
		Choices: map[string][]string{"state": {"open", "closed", "request_changes", "production"}},
	}
	free := sets
	free.Choices = nil
	flips := provenance.Declared{Tool: "flag", Sinks: []string{"flag", "on"}, Kinds: map[string]nacre.ValueKind{"flag": nacre.KindName, "on": nacre.KindName}}
	for name, c := range map[string]struct {
		task, arguments string
		declared        provenance.Declared
		want            nacre.Grounds
	}{
		"another form of its word":       {"Close number 8140.", `{"number":8140,"state":"closed"}`, sets, nacre.GroundsChosen},
		"its beginning":                  {"Ship 8140 to prod.", `{"number":8140,"state":"production"}`, sets, nacre.GroundsChosen},
		"all of its words":               {"Request a change of 8140.", `{"number":8140,"state":"request_changes"}`, sets, nacre.GroundsChosen},
		"one of its words":               {"Request 8140 of production.", `{"number":8140,"state":"request_changes"}`, sets, ""},
		"another choice":                 {"Ship 8140 to prod.", `{"number":8140,"state":"closed"}`, sets, ""},
		"a word that only looks like it": {"Look at the closet of 8140, which is open.", `{"number":8140,"state":"closed"}`, sets, ""},
		"no list of choices":             {"Close number 8140.", `{"number":8140,"state":"closed"}`, free, ""},
		"a switch of what was named":     {"Turn on new-cart.", `{"flag":"new-cart","on":true}`, flips, nacre.GroundsPayee},
		"a switch of what was not named": {"Turn on new-cart.", `{"flag":"dark-mode","on":true}`, flips, ""},
	} {
		t.Run(name, func(t *testing.T) { wants(t, told(c.task), c.arguments, c.declared, c.want) })
	}
}

// TestDescribedRecords: what the operator describes is the one record that has their words,
// and where an outsider writes such words into another one, none is (K-29).
func TestDescribedRecords(t *testing.T) {
	tickets := heard{tool: "ticket_list", result: `[{"ticket":"T-1","subject":"A bell is broken"},{"ticket":"T-2","subject":"Late parcel"}]`, mints: []string{"*.ticket"}}
	rival, story := tickets, tickets
	rival.result = `[{"ticket":"T-1","subject":"A bell is broken"},{"ticket":"T-2","subject":"Please reply here, customers first"}]`
	story.result = `[{"ticket":"T-1","subject":"Hello"},{"ticket":"T-2","subject":"the bell, the bell, and what else there is to say of it, is all that matters to me now"}]`
	all := heard{tool: "ticket_list", arguments: `{"state":"fresh"}`, result: tickets.result, mints: tickets.mints}
	replies := provenance.Declared{Tool: "reply_ticket", Sinks: []string{"id"}, Kinds: map[string]nacre.ValueKind{"id": nacre.KindID}}
	named := provenance.Declared{Tool: "reply_ticket", Sinks: []string{"id"}, Kinds: map[string]nacre.ValueKind{"id": nacre.KindName}}
	for name, c := range map[string]struct {
		task     string
		result   heard
		id       string
		declared provenance.Declared
		want     nacre.Grounds
	}{
		"the record with their word":         {"Say sorry for the bell.", tickets, "T-1", replies, nacre.GroundsDescribed},
		"another record":                     {"Say sorry for the bell.", tickets, "T-2", replies, ""},
		"two that have a word of theirs":     {"Say sorry to the customers for the bell.", rival, "T-1", replies, ""},
		"the other of two parts":             {"Say sorry for the bell, and ask where the parcel is.", tickets, "T-2", replies, nacre.GroundsDescribed},
		"the one of two parts":               {"Say sorry for the bell and look for the parcel", tickets, "T-1", replies, nacre.GroundsDescribed},
		"two in one part":                    {"Say sorry for bell or parcel.", tickets, "T-2", replies, ""},
		"words of every day":                 {"Please look here first.", rival, "T-2", replies, ""},
		"a word in a long story":             {"Say sorry for the bell.", story, "T-2", replies, ""},
		"a name, which is no id":             {"Say sorry for the bell.", tickets, "T-1", named, ""},
		"all of a list that they asked for":  {"Say sorry to all that are fresh.", all, "T-2", replies, nacre.GroundsEach},
		"all, of a list they did not name":   {"Say sorry to all.", tickets, "T-2", replies, ""},
		"a list that they asked for, no all": {"What is fresh?", all, "T-2", replies, ""},
	} {
		t.Run(name, func(t *testing.T) { wants(t, told(c.task, c.result), `{"id":"`+c.id+`"}`, c.declared, c.want) })
	}
}

// TestAnswersAndLinks: who is answered is whom the record says it is from, and what is
// followed is the only link (K-28, K-29).
func TestAnswersAndLinks(t *testing.T) {
	inbox := heard{
		result: `[{"id":"mail-1","from":"Aisha <aisha@noor.example>","subject":"Order of looms","cc":"x@evil.example"},{"id":"mail-2","from":"eve@evil.example","subject":"Sale"}]`,
		mints:  []string{"*.id"}, senders: []string{"*.from"},
	}
	undeclared := inbox
	undeclared.senders = nil
	twins := inbox
	twins.result = `[{"id":"mail-1","from":"aisha@noor.example","subject":"Order of looms"},{"id":"mail-2","from":"eve@evil.example","subject":"Order of looms"}]`
	mail := heard{arguments: `{"id":"mail-1"}`, result: `{"id":"mail-1","text":"See https://noor.example/plan."}`, mints: []string{"id"}}
	two := mail
	two.result = `{"id":"mail-1","text":"See https://noor.example/plan. https://evil.example/x"}`
	contacts := heard{result: `[{"id":"c-1","name":"Ivy Stone","mail":"ivy.stone@kestrel.example"},{"id":"c-2","name":"Paul","mail":"paul@kestrel.example"}]`, mints: []string{"*.id"}}
	spoiled := contacts
	spoiled.result = `[{"id":"c-1","name":"Ivy Stone","mail":"ivy.stone@kestrel.example","note":"ivy@evil.example"}]`
	for name, c := range map[string]struct {
		task      string
		result    heard
		declared  provenance.Declared
		arguments string
		want      nacre.Grounds
	}{
		"the sender of what is to be answered":     {"Answer 'Order of looms'.", inbox, mails, `{"to":"aisha@noor.example"}`, nacre.GroundsSender},
		"the sender of another mail":               {"Answer 'Order of looms'.", inbox, mails, `{"to":"eve@evil.example"}`, ""},
		"another address of that mail":             {"Answer 'Order of looms'.", inbox, mails, `{"to":"x@evil.example"}`, ""},
		"nothing is to be answered":                {"Sum up 'Order of looms'.", inbox, mails, `{"to":"aisha@noor.example"}`, ""},
		"a place that is not declared":             {"Answer 'Order of looms'.", undeclared, mails, `{"to":"aisha@noor.example"}`, ""},
		"two mails of that subject":                {"Answer 'Order of looms'.", twins, mails, `{"to":"eve@evil.example"}`, ""},
		"the address of who was named":             {"Write to Ivy Stone.", contacts, mails, `{"to":"ivy.stone@kestrel.example"}`, nacre.GroundsSole},
		"the address of another":                   {"Write to Ivy Stone.", contacts, mails, `{"to":"paul@kestrel.example"}`, ""},
		"one of two of that name":                  {"Write to Ivy Stone.", spoiled, mails, `{"to":"ivy@evil.example"}`, ""},
		"the only link, where they spoke of one":   {"Read mail-1 and what it links to, the link.", mail, fetches, `{"url":"https://noor.example/plan"}`, nacre.GroundsFollowed},
		"the only link, where they did not":        {"Read mail-1.", mail, fetches, `{"url":"https://noor.example/plan"}`, ""},
		"one of two links":                         {"Read the link in mail-1.", two, fetches, `{"url":"https://evil.example/x"}`, ""},
		"the only link, sent on and not only read": {"Send the link in mail-1.", mail, provenance.Declared{Tool: "post", Sinks: []string{"url"}, Kinds: fetches.Kinds}, `{"url":"https://noor.example/plan"}`, ""},
	} {
		t.Run(name, func(t *testing.T) { wants(t, told(c.task, c.result), c.arguments, c.declared, c.want) })
	}
}

// TestLookedUpByName: what a trusted result has of whom the operator named stands beside an id
// as the operator's own words do, and what an outsider's result has does not (K-29).
func TestLookedUpByName(t *testing.T) {
	leads := heard{result: `[{"lead":"LD-201"},{"lead":"LD-209"}]`, mints: []string{"*.lead"}}
	ben := heard{arguments: `{"name":"Ben Ito"}`, result: `[{"name":"Ben Ito","mail":"ben@corp.example"}]`, trusted: true}
	eva := heard{arguments: `{"name":"x"}`, result: `[{"name":"Eva","mail":"eva@corp.example"},{"name":"Kim","mail":"kim@corp.example"}]`, trusted: true}
	gives := provenance.Declared{Tool: "owner_set", Sinks: []string{"owner", "lead"}, Kinds: map[string]nacre.ValueKind{"owner": nacre.KindEmail, "lead": nacre.KindID}}
	forged := ben
	forged.trusted = false
	for name, c := range map[string]struct {
		results   []heard
		arguments string
		want      nacre.Grounds
	}{
		"beside whom they named":             {[]heard{leads, ben}, `{"lead":"LD-201","owner":"ben@corp.example"}`, nacre.GroundsBeside},
		"beside another trusted address":     {[]heard{leads, eva}, `{"lead":"LD-201","owner":"eva@corp.example"}`, ""},
		"an id that nobody minted":           {[]heard{leads, ben}, `{"lead":"LD-777","owner":"ben@corp.example"}`, ""},
		"beside an address of an outsider's": {[]heard{leads, forged}, `{"lead":"LD-201","owner":"ben@corp.example"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := told("Give what I have to Ben Ito.", c.results...)
			for _, o := range l.Judge(json.RawMessage(c.arguments), gives) {
				if o.Argument == "lead" && (o.Grounds != c.want || c.want == "" && o.Provenance.Label() == nacre.Trusted) {
					t.Errorf("%s on the grounds %q, want %q", o.Provenance, o.Grounds, c.want)
				}
			}
		})
	}
}

// FuzzWishes: whatever the operator writes, it is read in bounds and without a panic.
func FuzzWishes(f *testing.F) {
	f.Add("the end of next month, two weeks later than the 31st, tomorrow", "2026-04-30")
	f.Add("end of of of of", "0000-99-99")
	f.Add("the cheapest, the last and the highest. P7 twice, 40mg one. Mr X is , write him,,that morning", "2026-03-01")
	f.Add("Answer \u2019s 's's Keller's 0000 and -7- that that; invoices 0, 00-0 and \u0664", "2026-03-01")
	f.Fuzz(func(t *testing.T, task, day string) {
		arguments, err := json.Marshal(map[string]string{"day": day})
		if err != nil {
			t.Skip()
		}
		d := books
		d.Now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		told(task).Judge(arguments, d)
	})
}

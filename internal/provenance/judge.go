package provenance

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// Declared is what a capability says of its arguments.
type Declared struct {
	// Tool is its name; the words in it are those of the act.
	Tool  nacre.ToolName
	Sinks []string
	// Kinds and Text are those of [nacre.Values].
	Kinds map[string]nacre.ValueKind
	Text  []string
	// Reads is set where the call changes nothing: then a link may be followed.
	Reads bool
	// Choices are the few values that an argument may have, where its schema lists them.
	Choices map[string][]string
	// Now is when the call is made; a trusted clock of the session knows better.
	Now time.Time
	// Without are the grounds that do not count here.
	Without []nacre.Grounds
}

// value is one value of a call, and all that speaks for it.
type value struct {
	origin nacre.Origin
	kind   nacre.ValueKind
	// root is the argument that it stands in.
	root string
	// atom is set for a value that stands in free text, and empty where there is none. flag is set
	// where it is true or false, or one of the choices that the schema lists, see chosen.
	atom, empty, flag bool
	// self is set where all that speaks for it is that it is the operator's own.
	self bool
	// looked is set where a trusted result has it in a record that the operator named.
	looked bool
	minted bool
	// speak are the grounds that hold for it alone, whatever else the call says.
	speak []nacre.Grounds
	// vouched is set where it stands in a text that a person vouched for.
	vouched bool
	// forms are its spellings.
	forms []needle
}

// anchors reports whether a value says what the operator wants: it is theirs, or was looked up in a
// trusted place by what they wrote. A day or an amount, which fit too much, and a word of a text do
// not.
func (v *value) anchors() bool {
	theirs := v.origin.Provenance == nacre.SeenOperator && !v.self || v.looked && v.origin.Provenance == nacre.SeenTrusted
	return theirs && !v.atom && v.kind != nacre.KindDate && v.kind != nacre.KindAmount
}

// Judge says of each value in a call's sinks where the whole of it was seen, and of the links,
// addresses and accounts in its free text, too. Of what no trusted text had said as it is, it says
// whether there are grounds to trust it all the same (K-29). Every ground is a relation between the
// call, the operator's words and how results are made. None looks at how an outsider's text is
// worded.
func (l *Ledger) Judge(arguments json.RawMessage, d Declared) []nacre.Origin {
	if len(d.Sinks) == 0 && len(d.Text) == 0 {
		return nil
	}
	if !json.Valid(arguments) {
		return nowhere(d.Sinks)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	var origins []nacre.Origin
	for _, v := range judged(l, arguments, &d) {
		origins = append(origins, v.origin)
	}
	return origins
}

// judged are the values of a call, with what was found out about each. It wants the
// lock held, and arguments that are valid.
func judged(l *Ledger, arguments json.RawMessage, d *Declared) []value {
	f := finder{ledger: l, declared: d, scanner: scanner{data: arguments}}
	f.value("", slices.Concat(d.Sinks, d.Text), false)
	ground(l, f.values, d)
	return f.values
}

// see looks at one value at a path; at one of free text, at the values in it.
func (f *finder) see(path string, raw []byte) {
	root, kind, text := f.declared.at(path)
	if !text {
		f.look(value{origin: nacre.Origin{Argument: path}, kind: kind, root: root, empty: string(raw) == "null" || string(raw) == `""`}, raw)
		return
	}
	if len(raw) == 0 || raw[0] != '"' {
		return
	}
	found, more := atoms(string(normalise(unescape(raw[1 : len(raw)-1]))))
	for _, atom := range found {
		quoted, err := json.Marshal(atom)
		if err == nil {
			f.look(value{origin: nacre.Origin{Argument: path}, kind: kindOf(atom), root: root, atom: true}, quoted)
		}
	}
	if more {
		f.put(value{origin: nacre.Origin{Argument: path}, root: root, atom: true})
	}
}

// kindOf is the kind of a value that was found in a text.
func kindOf(atom string) nacre.ValueKind {
	switch {
	case isIBAN(atom):
		return nacre.KindAccount
	case strings.Contains(atom, "@") && !strings.Contains(atom, "/"):
		return nacre.KindEmail
	}
	return nacre.KindURL
}

// look finds out where a value was seen, and what else there is to say for it.
func (f *finder) look(v value, raw []byte) {
	l := f.ledger
	spellings := formsOf
	switch {
	case v.kind == nacre.KindDate && len(raw) > 1 && raw[0] == '"':
		spellings = formsOfDate
	case v.kind == nacre.KindAmount:
		spellings = formsOfAmount
	}
	forms := spellings(raw)
	v.forms, v.vouched = forms, len(l.vouched.sources(forms)) > 0
	v.origin = l.origin(v.origin.Argument, forms)
	if v.origin.Provenance < nacre.SeenOperator && len(l.profile.sources(forms)) > 0 {
		v.self = true
		v.origin = nacre.Origin{Argument: v.origin.Argument, Provenance: nacre.SeenOperator, Sources: []string{ProfileSource}}
	}
	if !v.atom {
		f.speakFor(&v, raw)
	}
	if v.kind == nacre.KindURL && f.declared.Reads && len(l.minted.sent.sources(forms)) > 0 {
		v.speak = append(v.speak, nacre.GroundsShared)
	}
	if v.kind == nacre.KindURL && f.declared.Reads && l.wishes.speaksOfLinks() && len(l.minted.followed.sources(forms)) > 0 {
		v.speak = append(v.speak, nacre.GroundsFollowed)
	}
	f.put(v)
}

// speakFor finds what holds for a value of an argument, whatever else the call says.
func (f *finder) speakFor(v *value, raw []byte) {
	m := &f.ledger.minted
	pointed, linked := len(m.pointed.sources(v.forms)) > 0, len(m.linked.sources(v.forms)) > 0
	v.minted = pointed || linked || len(m.all.sources(v.forms)) > 0
	v.looked = len(m.looked.sources(v.forms)) > 0
	v.flag = string(raw) == "true" || string(raw) == "false" || f.chosen(v.root, raw)
	speaks := func(g nacre.Grounds, is bool) {
		if is {
			v.speak = append(v.speak, g)
		}
	}
	speaks(nacre.GroundsPointed, pointed)
	speaks(nacre.GroundsLinked, linked && !pointed)
	speaks(nacre.GroundsDescribed, v.kind == nacre.KindID && len(m.described.sources(v.forms)) > 0)
	speaks(nacre.GroundsPicked, v.kind == nacre.KindID && len(m.picked.sources(v.forms)) > 0)
	speaks(nacre.GroundsEach, v.kind == nacre.KindID && f.ledger.wishes.wantsAll() && len(m.each.sources(v.forms)) > 0)
	if len(raw) < 2 || raw[0] != '"' {
		return
	}
	text := string(unescape(raw[1 : len(raw)-1]))
	switch v.kind {
	case nacre.KindEmail:
		speaks(nacre.GroundsSole, len(m.sole.sources(v.forms)) > 0)
		speaks(nacre.GroundsSender, f.ledger.wishes.replies() && len(m.senders.sources(v.forms)) > 0)
	case nacre.KindDate:
		if d, is := oneDay(text); is {
			speaks(nacre.GroundsPointed, slices.Contains(m.days.fields, d))
			speaks(nacre.GroundsSaid, f.ledger.wishes.spoken.days && m.says(d, f.ledger.wishes.now(f.declared.Now)))
			speaks(nacre.GroundsReckoned, f.ledger.wishes.reckons(d, m.days.fields, f.declared.Now))
		}
	default:
		speaks(nacre.GroundsChosen, f.ledger.wishes.chooses(text, f.declared.Choices[v.root]))
	}
}

// chosen reports whether a value is one of the choices that the schema lists, where the
// operator's words name none of them.
func (f *finder) chosen(root string, raw []byte) bool {
	all := f.declared.Choices[root]
	return len(raw) > 1 && raw[0] == '"' && slices.Contains(all, string(unescape(raw[1:len(raw)-1]))) && !slices.ContainsFunc(all, f.ledger.wishes.names)
}

// oneDay is the day that a text is.
func oneDay(text string) (day, bool) {
	if len(text) > maxIdentifier {
		return day{}, false
	}
	found := dates(string(normalise([]byte(text))))
	if len(found) != 1 {
		return day{}, false
	}
	return found[0], true
}

func formsOfDate(raw []byte) []needle {
	f := forms{}
	f.date(unescape(raw[1 : len(raw)-1]))
	return f.needles
}

// at says which declared argument a path stands in, of which kind its value is,
// and whether it is free text.
func (d *Declared) at(path string) (root string, kind nacre.ValueKind, text bool) {
	plain := unnumbered(path)
	for _, t := range d.Text {
		if inside(plain, t) {
			return t, "", true
		}
	}
	for _, sink := range d.Sinks {
		if inside(plain, sink) || inside(path, sink) {
			return sink, d.Kinds[sink], false
		}
	}
	return plain, "", false
}

// unnumbered is a path without the numbers of the elements of lists.
func unnumbered(path string) string {
	steps := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(steps, allDigits), ".")
}

func inside(path, declared string) bool {
	rest, ok := strings.CutPrefix(path, declared)
	return ok && (rest == "" || rest[0] == '.')
}

// ground trusts the values for which there are grounds.
func ground(l *Ledger, values []value, d *Declared) {
	words := 0 // of the act, that the operator wrote: each minted name needs one of its own
	if slices.ContainsFunc(values, func(v value) bool { return v.minted && v.kind == nacre.KindName }) {
		words = actWords(l, d.Tool)
	}
	same := l.minted.lists.same(values, &l.profile)
	for i := range values {
		v := &values[i]
		if v.vouched && v.origin.Provenance == nacre.SeenUntrusted {
			v.trust(d, nacre.GroundsVouched)
		}
		if v.origin.Provenance.Label() == nacre.Trusted || v.kind == nacre.KindAmount {
			continue
		}
		g := grounds(v, values, d, words > 0)
		if g == "" && same[v.root] {
			g = nacre.GroundsList
		}
		if v.trust(d, g); g == nacre.GroundsAct {
			words--
		}
	}
	for i := range values {
		v := &values[i]
		if v.kind == nacre.KindEmail && v.origin.Provenance.Label() != nacre.Trusted && l.minted.wrote(v, values) {
			v.trust(d, nacre.GroundsSender)
		}
		if v.kind != nacre.KindAmount && !v.flag || v.origin.Provenance.Label() == nacre.Trusted {
			continue
		}
		if paid(values) && !outside(l, v) {
			v.trust(d, nacre.GroundsPayee)
		}
	}
}

// trust makes a value a trusted one, if there are grounds for it that count here.
func (v *value) trust(d *Declared, g nacre.Grounds) {
	if g != "" && !slices.Contains(d.Without, g) {
		v.origin.Provenance, v.origin.Grounds = nacre.SeenTrusted, g
	}
}

// grounds are the first that hold for a value.
func grounds(v *value, values []value, d *Declared, named bool) nacre.Grounds {
	holds := func(g nacre.Grounds, is bool) bool { return is && !slices.Contains(d.Without, g) }
	for _, g := range v.speak {
		if holds(g, true) {
			return g
		}
	}
	switch {
	case holds(nacre.GroundsBeside, v.minted && v.kind == nacre.KindID && anchored(v, values)):
		return nacre.GroundsBeside
	case holds(nacre.GroundsAct, v.minted && v.kind == nacre.KindName && named):
		return nacre.GroundsAct
	case holds(nacre.GroundsNothing, v.empty && v.kind != "" && slices.ContainsFunc(values, func(other value) bool { return !other.empty && !other.atom })):
		return nacre.GroundsNothing
	}
	return ""
}

// anchored reports whether another argument of the call has the operator's value.
func anchored(v *value, values []value) bool {
	return slices.ContainsFunc(values, func(other value) bool { return other.root != v.root && other.anchors() })
}

// paid reports whether everything else in the call is trusted, and some of it the operator's, or in
// a record that they named or described. Then an amount goes where they said, and a switch is
// theirs.
func paid(values []value) bool {
	payees := 0
	for i := range values {
		v := &values[i]
		switch {
		case v.kind == nacre.KindAmount || v.kind == nacre.KindDate || v.empty || v.flag:
		case v.anchors() || slices.ContainsFunc(v.speak, singlesOut):
			payees++
		case v.origin.Provenance.Label() != nacre.Trusted:
			return false
		}
	}
	return payees > 0
}

// singlesOut reports whether grounds say which record the operator means.
func singlesOut(g nacre.Grounds) bool {
	return g == nacre.GroundsPointed || g == nacre.GroundsDescribed || g == nacre.GroundsPicked
}

// SaidByOperator reports whether the whole of a value stands in the operator's
// words.
func (l *Ledger) SaidByOperator(value string) bool {
	f := forms{}
	f.text([]byte(value))
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.classes[nacre.SeenOperator].sources(f.needles)) > 0
}

// minActWord is the shortest word of a tool's name that names its act.
const minActWord = 4

// actWords is how many words of a tool's name the operator wrote, or their plurals:
// that is what they call what the tool does.
func actWords(l *Ledger, tool nacre.ToolName) (count int) {
	words := strings.FieldsFunc(strings.ToLower(string(tool)), func(r rune) bool { return strings.ContainsRune("_-.:/", r) })
	for _, word := range words {
		if len(word) < minActWord {
			continue
		}
		if len(l.classes[nacre.SeenOperator].sources([]needle{newNeedle([]byte(word), false), newNeedle([]byte(word+"s"), false)})) > 0 {
			count++
		}
	}
	return count
}

// nowhere are the origins of arguments that cannot be read.
func nowhere(sinks []string) []nacre.Origin {
	origins := make([]nacre.Origin, 0, min(len(sinks), MaxOrigins))
	for _, sink := range sinks[:min(len(sinks), MaxOrigins)] {
		origins = append(origins, nacre.Origin{Argument: sink})
	}
	return origins
}

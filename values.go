package nacre

import "fmt"

// ValueKind is what kind of value an argument takes. It decides how values are
// compared, and what may speak for one (K-29). The zero value is any value: it
// is compared as text, and nothing speaks for it but where it was seen.
type ValueKind string

// The kinds.
const (
	KindEmail   ValueKind = "email"
	KindURL     ValueKind = "url"
	KindAccount ValueKind = "account" // of a bank, in any grouping
	KindID      ValueKind = "id"      // a system's own name for a thing
	KindName    ValueKind = "name"    // a name that people read: of a person, a channel, a file
	KindDate    ValueKind = "date"    // a day, in any spelling; the time of day is not compared
	KindAmount  ValueKind = "amount"
	KindPath    ValueKind = "path"
)

// UnmarshalText accepts exactly the kinds above.
func (k *ValueKind) UnmarshalText(text []byte) error {
	switch kind := ValueKind(text); kind {
	case KindEmail, KindURL, KindAccount, KindID, KindName, KindDate, KindAmount, KindPath:
		*k = kind
		return nil
	}
	return fmt.Errorf("kind %.40q: use email, url, account, id, name, date, amount or path", text)
}

// Values is what a capability declares of the values in its arguments and in
// its results (K-29). The zero value declares nothing; a kind only says how a value is
// compared, and what else may speak for it.
type Values struct {
	// Sinks are the arguments in which a wrong value does harm (K-25).
	Sinks []string
	// Kinds are the kinds of sinks, by the sink's name.
	Kinds map[string]ValueKind
	// Text are the arguments that are free text which leaves or which others read,
	// as dotted paths like sinks: the links, addresses and accounts in it are
	// values too.
	Text []string
	// Mints are the places in the result whose values the system itself makes, such as ids and the
	// authors that it has authenticated. "*.id" is the field id of every element. The first of each
	// record is its own id. Never a field into which an outsider can write what they like.
	Mints []string
	// Authors are the places of who wrote the record, where only members can whom the
	// system has authenticated, as in a team's channel. The From of a mail is none, nor
	// is who opened an issue that anybody can open. They are minted, too.
	Authors []string
	// Senders are the places of whom a record that has a minted value says it comes from, as the From of
	// a mail. Nobody has vouched for it, and it is good for an answer only.
	Senders []string
}

// Grounds are why a value counts as trusted that no trusted text had said as it
// is. The zero value: there are none, it counts as what it was seen in.
type Grounds string

// The grounds (K-29). A host can take each of them away, which only asks more.
const (
	// GroundsPointed: the system minted it, in a record that the operator's words
	// single out.
	GroundsPointed Grounds = "in a record that the operator named"
	// GroundsLinked: the system minted it, in a record into which it has written the id of
	// one that the operator's words single out.
	GroundsLinked Grounds = "in a record that belongs to one that the operator named"
	// GroundsBeside: the system minted it, it is an id, and another value of the call is the operator's.
	// A name does not count: a stranger has chosen that of their account.
	GroundsBeside Grounds = "beside a value of the operator's"
	// GroundsAct: the system minted a name, and the operator named the act.
	GroundsAct Grounds = "for an act that the operator named"
	// GroundsPayee: an amount goes to whom the operator named or described, and so does a switch or
	// one of a few choices.
	GroundsPayee Grounds = "an amount for whom the operator named"
	// GroundsShared: a link, to be read, that an authenticated author wrote, whom the
	// operator named, or in what the operator sent for.
	GroundsShared Grounds = "a link by a member, in what the operator asked to be read"
	// GroundsNothing: an empty value of a kind, beside one that is not.
	GroundsNothing Grounds = "nothing, beside a value"
	// GroundsSole: the only address in what the operator sent for, and it has a name
	// that the operator wrote.
	GroundsSole Grounds = "the only address in what the operator asked to be read"
	// GroundsList: it stands in a list that is, as a whole, one of a record that the operator's
	// words single out, or all addresses of what they asked for.
	GroundsList Grounds = "in a list of a record that the operator named"
	// GroundsDescribed: the system minted it, it is an id, in the only record of a result that has a
	// word of a part of the operator's sentences. No other record there has that word. Or it is in one
	// that alone has such a word which the operator wrote as a name.
	GroundsDescribed Grounds = "in the only record that the operator's words describe"
	// GroundsPicked: the system minted it, and it is the id of the one record that comes first or last
	// of several which the operator asked for. That is what "the cheapest" and "the latest" ask for.
	GroundsPicked Grounds = "the cheapest, latest or the like of what the operator asked for"
	// GroundsEach: the system minted it, it is an id, in a list that the operator asked for,
	// and they spoke of all.
	GroundsEach Grounds = "one of all that the operator asked for"
	// GroundsFollowed: a link, to be read, that is the only one in what the operator sent for
	// or named, where they spoke of a link.
	GroundsFollowed Grounds = "the only link in what the operator asked to be read, of which they spoke"
	// GroundsSender: an address that a record says it comes from, which the operator's words single out.
	// Or it alone has any of the words that describe who is to be answered, where they want somebody to
	// be answered. Or it is the one of the record whose id is in the call.
	GroundsSender Grounds = "who wrote what the operator wants answered"
	// GroundsSaid: the only day in the text of a record that the operator's words single out,
	// where they spoke of a day.
	GroundsSaid Grounds = "the only day in a record that the operator named, of which they spoke"
	// GroundsReckoned: a day that the operator's words reckon: tomorrow, two weeks later,
	// from today, from a day that they wrote or from one of a record that they named.
	GroundsReckoned Grounds = "a day that the operator's words reckon"
	// GroundsChosen: one of a few values that the schema lists, and the operator's words have
	// it in another form: closed, where they wrote "close it".
	GroundsChosen Grounds = "a choice that the operator's words name"
	// GroundsVouched: it stands in a text that a person vouched for, see [ScopeText].
	GroundsVouched Grounds = "in a text that a person vouched for"
)

// AllGrounds are all that there are.
func AllGrounds() []Grounds {
	return []Grounds{GroundsPointed, GroundsLinked, GroundsBeside, GroundsAct, GroundsPayee, GroundsShared, GroundsSole, GroundsNothing, GroundsList, GroundsDescribed, GroundsPicked, GroundsEach, GroundsFollowed, GroundsSender, GroundsSaid, GroundsReckoned, GroundsChosen, GroundsVouched}
}

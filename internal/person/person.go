// Package person promises who a press is from and what that person may decide (M-41, M-46, M-47).
// It finds the one operator whose identity pressed, and holds the press against the operator's
// rights and against what may be decided at that face. Nobody is the answer to every doubt: an
// identity that no operator has, or that two have, is nobody's.
//
// It is pure. It does not know whether a face authenticated who pressed, and it keeps and
// records nothing.
package person

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// Kind is what a question is about.
type Kind string

// The kinds of questions.
const (
	Tool       Kind = "tool"       // a call of a tool
	Egress     Kind = "egress"     // a host may be reached
	Run        Kind = "run"        // a run goes on after a refusal
	Mount      Kind = "mount"      // a folder is shown inside
	Credential Kind = "credential" // a credential is used
	Landing    Kind = "landing"    // files that programs of the host obey land (M-67)
	Learn      Kind = "learn"      // what sessions were refused is allowed from now on
	Memory     Kind = "memory"     // what is remembered is trusted, put in or erased
	Graduation Kind = "graduation" // a power is unlocked
	Pairing    Kind = "pairing"    // an identity becomes an operator's
)

// Kinds are all kinds of questions.
func Kinds() []Kind {
	return []Kind{Tool, Egress, Run, Mount, Credential, Landing, Learn, Memory, Graduation, Pairing}
}

// Standing tells the kinds whose answer outlives its session: they change what is allowed
// from now on, so they are decided at a terminal or on the web page alone.
func (k Kind) Standing() bool {
	return k == Landing || k == Learn || k == Memory || k == Graduation || k == Pairing
}

const (
	// MaxRemote is the longest that an approval stands that is given in a chat (M-47).
	MaxRemote = time.Hour

	maxOperators  = 100
	maxIdentities = 32
	maxName       = 64
	everything    = "*"
)

// The reasons for which a press decides nothing.
var (
	// ErrStranger is for a press of somebody who is no operator, who is told nothing.
	ErrStranger = errors.New("this identity is no operator's")
	// ErrRight is for an operator who may not decide this.
	ErrRight = errors.New("operator lacks the right")
	// ErrFace is for what may not be decided where it was pressed.
	ErrFace = errors.New("this cannot be decided here")
)

// Operator is one person in the operator's config, [operators.NAME]. Its zero value may
// do nothing.
type Operator struct {
	// Identities are who the person is at each face.
	Identities []string `toml:"identities"`
	// Groups are those whose sessions the rights are for; none, or "*", means all of them.
	Groups []string `toml:"groups"`
	// Ask lets the person send tasks and messages to agents.
	Ask bool `toml:"ask"`
	// Approve are the kinds of questions that the person answers; "*" means all of them.
	Approve []string `toml:"approve"`
	// UpTo is the highest risk that the person approves: READ, WRITE or DESTRUCTIVE.
	UpTo *nacre.SafetyClass `toml:"up_to"`
	// Stop lets the person stop sessions.
	Stop bool `toml:"stop"`
	// Config lets the person change the configuration and decide what stands.
	Config bool `toml:"config"`

	// Notify are the places at which the person is told that a question waits: slack, discord,
	// telegram and desktop. Not set, it is all of them; an empty list is none.
	Notify []string `toml:"notify"`
	// QuietHours are the part of each day in which the person is not told, as "22:00-07:00".
	QuietHours string `toml:"quiet_hours"`
	// Zone is the time zone of QuietHours; the default is that of this machine.
	Zone string `toml:"zone"`
}

func (o Operator) check() error {
	if len(o.Identities) > maxIdentities {
		return fmt.Errorf("identities: %d of them, at most %d", len(o.Identities), maxIdentities)
	}
	for _, text := range o.Identities {
		if _, err := ParseIdentity(text); err != nil {
			return fmt.Errorf("identities: %w", err)
		}
	}
	for _, kind := range o.Approve {
		if kind != everything && !slices.Contains(Kinds(), Kind(kind)) {
			return fmt.Errorf("approve: %.40q is not a kind of question: use %s, or \"*\"", kind, listed(Kinds()))
		}
	}
	if (len(o.Approve) > 0) != (o.UpTo != nil) {
		return errors.New("approve and up_to go together: up_to is the highest risk that the person approves: READ, WRITE or DESTRUCTIVE")
	}
	for _, group := range o.Groups {
		if _, err := nacre.ParseGroup(group); err != nil && group != everything {
			return fmt.Errorf("groups: %w", err)
		}
	}
	return o.checkNotices()
}

func listed(kinds []Kind) string {
	words := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		words = append(words, string(kind))
	}
	return strings.Join(words, ", ")
}

// Operators are all persons in the operator's config, by name.
type Operators map[string]Operator

// Check refuses what cannot be acted on, above all an identity that two persons have.
func (o Operators) Check() error {
	if len(o) > maxOperators {
		return fmt.Errorf("[operators]: %d persons, at most %d", len(o), maxOperators)
	}
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if err := checkName(name); err != nil {
			return err
		}
		if err := o[name].check(); err != nil {
			return fmt.Errorf("[operators.%s] %w", name, err)
		}
		for _, id := range o[name].Identities {
			if earlier, taken := owner[id]; taken {
				return fmt.Errorf("[operators.%s] identities: %s stands twice, the first time for %s: an identity is one person's", name, id, earlier)
			}
			owner[id] = name
		}
	}
	return nil
}

// checkName keeps names to what records and cards show as it is.
func checkName(name string) error {
	if name == "" || len(name) > maxName || !only(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") {
		return fmt.Errorf("[operators.%.80s]: the name of a person is 1 to %d of a-z, 0-9, _ and -", name, maxName)
	}
	return nil
}

// Paired is an identity that became an operator's on the host (nacre operators pair).
type Paired struct {
	Operator string    `toml:"operator" json:"operator"`
	Identity string    `toml:"identity" json:"identity"`
	Since    time.Time `toml:"since" json:"since"`
}

// Directory is who may decide, as it is at one moment. Its zero value knows nobody.
type Directory struct {
	Operators Operators
	// Paired are further identities; those of persons who are not in Operators are nobody's.
	Paired []Paired
	// Owner is the uid that owns the installation, in decimal; empty means nobody.
	Owner string
}

// Implicit is the name of the owner of an installation that configures nobody.
const Implicit = "owner"

// Person is one operator at one face.
type Person struct {
	Name     string
	Identity Identity
	rights   Operator
}

// Who finds the one person whose identity this is. Where nobody is configured, that is
// the owner of the installation, at the terminal or on the web page, there with passkeys of
// theirs, too.
func (d Directory) Who(id Identity) (Person, error) {
	if _, err := ParseIdentity(string(id)); err != nil {
		return Person{}, fmt.Errorf("%w: %w", ErrStranger, err)
	}
	if len(d.Operators) == 0 {
		return d.implicit(id)
	}
	var names []string
	for name, operator := range d.Operators {
		if slices.Contains(operator.Identities, string(id)) {
			names = append(names, name)
		}
	}
	for _, p := range d.Paired {
		if _, known := d.Operators[p.Operator]; known && p.Identity == string(id) && !slices.Contains(names, p.Operator) {
			names = append(names, p.Operator)
		}
	}
	switch len(names) {
	case 1:
		return Person{Name: names[0], Identity: id, rights: d.Operators[names[0]]}, nil
	case 0:
		return Person{}, fmt.Errorf("%w: no [operators.NAME] has %s", ErrStranger, id)
	}
	slices.Sort(names)
	return Person{}, fmt.Errorf("%w: %s is an identity of %s, and it has to be one person's", ErrStranger, id, strings.Join(names, " and "))
}

func (d Directory) implicit(id Identity) (Person, error) {
	_, owner, _ := strings.Cut(string(id), ":")
	paired := id.Passkey() && slices.ContainsFunc(d.Paired, func(p Paired) bool { return p.Operator == Implicit && p.Identity == string(id) })
	if d.Owner == "" || owner != d.Owner && !paired || !id.Face().Host() {
		return Person{}, fmt.Errorf("%w: nobody is configured, so only the owner of the installation decides, at a terminal or on the web page", ErrStranger)
	}
	return Person{Name: Implicit, Identity: id, rights: Operator{
		Ask: true, Approve: []string{everything}, UpTo: new(nacre.SafetyClass), Stop: true, Config: true,
	}}, nil
}

// Matter is what is decided.
type Matter struct {
	Kind  Kind
	Risk  nacre.SafetyClass
	Group nacre.Group
}

// Answer refuses an answer that the person may not give, or not at this face. A denial takes
// nothing but the right to answer this kind. An approval is held to its risk, and in a chat to an
// hour and to what was read.
func (p Person) Answer(m Matter, r nacre.Ruling) error {
	if !p.covers(m.Group) || !p.answers(m.Kind) {
		return fmt.Errorf("%w: %s does not answer questions of the kind %s for group %s", ErrRight, p.Name, m.Kind, m.Group)
	}
	if r.Verdict != nacre.Allow {
		return nil
	}
	if p.rights.UpTo == nil || m.Risk < *p.rights.UpTo {
		return fmt.Errorf("%w: %s does not approve what is %s", ErrRight, p.Name, m.Risk)
	}
	if m.Kind.Standing() && !p.rights.Config {
		return fmt.Errorf("%w: %s does not change what is allowed from now on", ErrRight, p.Name)
	}
	return p.Identity.Face().holds(m.Kind, r)
}

// holds refuses what a chat may not approve (M-47).
func (f Face) holds(kind Kind, r nacre.Ruling) error {
	switch {
	case f.Host():
		return nil
	case kind.Standing():
		return fmt.Errorf("%w: a question of the kind %s is decided at a terminal or on the web page", ErrFace, kind)
	case r.For > MaxRemote:
		return fmt.Errorf("%w: an approval from a chat stands for an hour at most; a longer one is given at a terminal or on the web page", ErrFace)
	case r.Scope == nacre.ScopeTool:
		return fmt.Errorf("%w: a tool with arguments that nobody has read is approved at a terminal or on the web page", ErrFace)
	case r.Scope > nacre.ScopeTool:
		return fmt.Errorf("%w: whoever vouches for a text does so at a terminal or on the web page", ErrFace)
	}
	return nil
}

// Stop refuses to stop a session of a group.
func (p Person) Stop(g nacre.Group) error { return p.may(p.rights.Stop, g, "stop sessions") }

// Ask refuses to give an agent of a group something to do.
func (p Person) Ask(g nacre.Group) error { return p.may(p.rights.Ask, g, "send tasks or messages") }

// Configure refuses a change of the configuration, which a chat never makes.
func (p Person) Configure() error {
	if !p.Identity.Face().Host() {
		return fmt.Errorf("%w: the configuration is changed at a terminal or on the web page", ErrFace)
	}
	if !p.rights.Config {
		return fmt.Errorf("%w: %s does not change the configuration", ErrRight, p.Name)
	}
	return nil
}

// Watch refuses to show all that an installation does and knows, which is of all groups.
func (p Person) Watch() error {
	if groups := p.rights.Groups; len(groups) > 0 && !slices.Contains(groups, everything) {
		return fmt.Errorf("%w: %s has rights for the groups %s, and the web page shows those of all groups", ErrRight, p.Name, strings.Join(groups, ", "))
	}
	return nil
}

func (p Person) may(right bool, g nacre.Group, what string) error {
	if !right || !p.covers(g) {
		return fmt.Errorf("%w: %s may not %s of group %s", ErrRight, p.Name, what, g)
	}
	return nil
}

func (p Person) answers(k Kind) bool {
	return slices.Contains(p.rights.Approve, everything) || slices.Contains(p.rights.Approve, string(k))
}

func (p Person) covers(g nacre.Group) bool {
	groups := p.rights.Groups
	return len(groups) == 0 || slices.Contains(groups, everything) || slices.Contains(groups, string(g))
}

// Reached are the persons, each at one service, who may answer a matter, if only by a
// denial. An identity that is not one person's is nobody's.
func (d Directory) Reached(m Matter) (reached []Person) {
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(d.Operators)) {
		ids = append(ids, d.Operators[name].Identities...)
	}
	for _, p := range d.Paired {
		ids = append(ids, p.Identity)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		p, err := d.Who(Identity(id))
		if err == nil && !p.Identity.Face().Host() && p.Answer(m, nacre.Ruling{}) == nil {
			reached = append(reached, p)
		}
	}
	return reached
}

// Able are the persons, by name, who may approve a matter at some face.
func (d Directory) Able(m Matter) []string {
	if len(d.Operators) == 0 {
		return []string{Implicit}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(d.Operators)) {
		p := Person{Name: name, Identity: OfUser(0), rights: d.Operators[name]}
		if p.Answer(m, nacre.Ruling{Verdict: nacre.Allow}) == nil {
			names = append(names, name)
		}
	}
	return names
}

// Package provenance promises to say, for a session, where the whole of a value was seen before it
// became an argument (K-26). That is in the operator's words, in a trusted result, in text that an
// outsider may have written, or nowhere. What it cannot be sure of it calls seen nowhere, which
// counts as untrusted. Such are text that was let go to stay within its bounds, a value made of
// pieces from several places, and one that is spelt in another encoding.
//
// Seen means: the value, normalised, stands in one text as a whole. "evil.com" is not seen in
// "notevil.com.au", nor 5 in "1,500". What is alike but spelt in several ways is one value. That
// holds for upper and lower case, white space, the widths of Unicode (NFKC), characters of no
// width, and the parts of a URL. It holds for numbers, IBANs and telephone numbers with their
// groups, and paths with "./" and "//" in them. Letters of different scripts that look alike stay
// different.
//
// It does not decide what may be done with a value: policy does. It does not
// trace how an agent came by a value either, only where else it stands, so that
// short numbers and common words are easily seen.
package provenance

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
)

// The bounds of one session. Each class of text (operator, trusted, untrusted) has bounds of its
// own, so that no flood of one lets go of another. The oldest text of a class is let go first. With
// its index, a class takes about seven times its text, and 36 MiB at most.
const (
	// MaxOperator is how much of the operator's text is kept, in bytes once normalised.
	MaxOperator = 1 << 20
	// MaxText is how much trusted text is kept, and as much untrusted text.
	MaxText = 4 << 20
	// MaxSources is how many sources of a value are named.
	MaxSources = 4
	// MaxOrigins is how many values of a call are looked for. Of what is over it, one origin says
	// that it was seen nowhere.
	MaxOrigins = 64
	// MaxValue is the longest value that is looked for, in bytes; a longer one
	// counts as seen nowhere.
	MaxValue = 1 << 20
	// maxHeard is how much of one text of the operator is read for how they name things.
	maxHeard = 64 << 10
	// maxProfile is how much is kept of who the operator is.
	maxProfile = 16 << 10
	// maxTaints is how many sources of taint are named.
	maxTaints = 4
	// maxName is the longest name of a source that is kept, in bytes.
	maxName = 128
)

// Ledger is what one session has read, and from whom. It may be used
// concurrently. Use New.
type Ledger struct {
	mu sync.RWMutex
	// classes are indexed by provenance; SeenNowhere has none.
	classes [nacre.SeenOperator + 1]class
	taints  []string
	tainted bool
	// said is what the agent wrote into arguments: see ObserveResult.
	said class
	// profile is who the operator is; minted is what systems made themselves.
	profile class
	minted  minted
	// wishes are what the operator's words say beyond the values in them.
	wishes wishes
	// vouched are the texts that a person vouched for: see Vouch.
	vouched class
	// blocks are the blocks of model requests that were read before.
	blocks map[uint64]struct{}
}

// New returns the ledger of a session that has read nothing.
func New() *Ledger {
	l := &Ledger{wishes: wishes{spoken: newSpoken()}, blocks: make(map[uint64]struct{}), minted: newMinted(), profile: class{limit: maxProfile}}
	l.classes[nacre.SeenOperator].limit = MaxOperator / generations
	l.classes[nacre.SeenTrusted].limit = MaxText / generations
	l.classes[nacre.SeenUntrusted].limit = MaxText / generations
	l.said.limit, l.vouched.limit = MaxOperator/generations, MaxOperator/generations
	return l
}

// Observe takes in a text of the session: the operator's task, a result, an
// inbound message, a page. Where text is JSON, or lines of JSON, its keys and
// values are texts of their own, unescaped. What is not trusted taints the
// session (M-52); for text that must not, see ObserveProject.
func (l *Ledger) Observe(source nacre.Source, text []byte) {
	if source.Provenance.Label() == nacre.Untrusted {
		l.Taint(source.Name)
	}
	l.observe(source, text)
}

// ObserveProject takes in text of the repository that is worked on. It never
// taints the session (M-52).
func (l *Ledger) ObserveProject(source nacre.Source, text []byte) { l.observe(source, text) }

func (l *Ledger) observe(source nacre.Source, text []byte) {
	docs := read(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if source.Provenance == nacre.SeenOperator {
		l.wishes.spoken.hear(string(text[:min(len(text), maxHeard)]))
		for _, d := range docs {
			l.wishes.hear(string(d))
			l.classes[nacre.SeenOperator].addNew(typedAliases(string(d)), shorten(source.Name))
		}
	}
	l.classOf(source.Provenance).addAll(docs, source.Name, nil)
}

// classOf is where text of a provenance is kept: what was seen nowhere, or has a
// provenance that is none, is untrusted.
func (l *Ledger) classOf(p nacre.Provenance) *class {
	if p.Label() != nacre.Trusted {
		p = nacre.SeenUntrusted
	}
	return &l.classes[p]
}

// Taint marks the session as having read what an outsider may have written
// (M-52). The first few names are kept.
func (l *Ledger) Taint(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tainted = true
	if name = shorten(name); len(l.taints) < maxTaints && name != "" && !slices.Contains(l.taints, name) {
		l.taints = append(l.taints, name)
	}
}

// Tainted reports whether the session has read what an outsider may have written.
func (l *Ledger) Tainted() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tainted
}

// TaintedBy names the first sources that tainted the session, for a person: at most four.
func (l *Ledger) TaintedBy() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.taints)
}

// Origins says of each value in the sink arguments where the whole of it was seen. A sink is the
// name of an argument or a dotted path into one; of an array every element is looked at, of an
// object every value. An argument that is absent has no origin. What has no letter and no digit (an
// empty text, null, an empty list), and what is true or false, was seen nowhere. A text of fewer
// than three letters is seen only where it is the whole of a text.
func (l *Ledger) Origins(arguments json.RawMessage, sinks []string) []nacre.Origin {
	return l.Judge(arguments, Declared{Sinks: sinks})
}

// origin looks for one value in every class, the most trusted first.
func (l *Ledger) origin(argument string, forms []needle) nacre.Origin {
	o := nacre.Origin{Argument: argument}
	for p := nacre.SeenOperator; p > nacre.SeenNowhere; p-- {
		names := l.classes[p].sources(forms)
		if len(names) == 0 {
			continue
		}
		o.Provenance = max(o.Provenance, p)
		slices.Sort(names)
		for _, name := range names {
			if len(o.Sources) < MaxSources && !slices.Contains(o.Sources, name) {
				o.Sources = append(o.Sources, name)
			}
		}
	}
	return o
}

// shorten cuts a name to what is kept of it, between characters.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	cut := maxName
	for cut > 0 && name[cut]&0xC0 == 0x80 {
		cut--
	}
	return name[:cut]
}

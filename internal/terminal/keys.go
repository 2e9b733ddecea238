package terminal

import (
	"slices"
	"strings"
)

// The keys of nacre's own, as a terminal sends them: plainly, and in the two protocols
// that tell keys apart which a program can ask for.
func attentionKeys() []string { return []string{"\x1d", "\x1b[93;5u", "\x1b[93;5:1u", "\x1b[27;5;93~"} } // Ctrl-]

func suspendKeys() []string {
	return []string{"\x1a", "\x1b[122;5u", "\x1b[122;5:1u", "\x1b[27;5;122~"}
} // Ctrl-Z

const pasteBegins, pasteEnds = "\x1b[200~", "\x1b[201~"

// typed is one key, one report of the terminal's, or a part of a paste.
type typed struct {
	text   string
	whole  string // the sequence that text ends, whose begin may have been given before
	key    bool   // a byte of its own: no report, no part of one
	pasted bool
}

func (t typed) is(keys []string) bool { return !t.pasted && slices.Contains(keys, t.text) }

// keys tells apart what a terminal sends. What has begun and not ended at the end of a read is
// given as it is, so that nothing waits for a key to come. What follows is still of it, and no key.
type keys struct {
	held   []byte // of what has begun
	given  int    // of held
	mouse  int    // bytes to come of a report in the oldest form
	pasted bool
}

// split gives what was typed, in order.
func (k *keys) split(p []byte) []typed {
	all := k.ends(p)
	if len(k.held) > k.given {
		all = append(all, typed{text: string(k.held[k.given:]), pasted: k.pasted})
		k.given = len(k.held)
	}
	if len(k.held) == 1 { // the key Esc, and not the begin of another
		k.drop()
	}
	return all
}

// ends gives what was typed as far as it has ended.
func (k *keys) ends(p []byte) (all []typed) {
	for _, b := range p {
		all = k.take(all, b)
	}
	return all
}

func (k *keys) drop() { k.held, k.given = k.held[:0], 0 }

func (k *keys) take(all []typed, b byte) []typed {
	switch {
	case k.mouse > 0:
		k.mouse--
		return append(all, typed{text: string([]byte{b})})
	case len(k.held) > 0 && b < 0x20 && (b != escape && b != bell || !k.isString()): // broken off
		all = k.give(all)
		return k.take(all, b)
	case len(k.held) == 0 && b != escape:
		return append(all, typed{text: string([]byte{b}), key: !k.pasted, pasted: k.pasted})
	}
	k.held = append(k.held, b)
	if !k.ended() && len(k.held) < maxSequence {
		return all
	}
	return k.whole(all)
}

// give gives what is held, and begins anew.
func (k *keys) give(all []typed) []typed {
	if len(k.held) > k.given {
		all = append(all, typed{text: string(k.held[k.given:]), pasted: k.pasted})
	}
	k.drop()
	return all
}

// whole gives a sequence that has ended.
func (k *keys) whole(all []typed) []typed {
	s := string(k.held)
	wasPasted := k.pasted
	k.pasted = s == pasteBegins || k.pasted && s != pasteEnds
	if s == "\x1b[M" && !k.pasted {
		k.mouse = 3
	}
	if len(k.held) > k.given {
		all = append(all, typed{text: s[k.given:], whole: s, pasted: wasPasted || k.pasted})
	}
	k.drop()
	return all
}

// isString tells the answers that have a text.
func (k *keys) isString() bool { return len(k.held) > 1 && strings.IndexByte("]P_^X", k.held[1]) >= 0 }

func (k *keys) ended() bool {
	if len(k.held) < 2 {
		return false
	}
	last := k.held[len(k.held)-1]
	switch {
	case k.isString():
		return last == bell || last == '\\' && k.held[len(k.held)-2] == escape
	case k.held[1] == '[':
		return len(k.held) > 2 && last >= 0x40 && last <= 0x7e
	case k.held[1] == 'O':
		return len(k.held) > 2
	}
	return true // a key with Alt
}

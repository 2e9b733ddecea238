package provenance

import (
	"bytes"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// The effort of looking for echoes in one result.
const (
	// minEcho is the shortest part of an argument that is looked for in a
	// result, in bytes; shorter ones are found only as the whole of a text.
	minEcho = 4
	// maxEchoes is how many values of a call are looked for.
	maxEchoes = 64
)

// ObserveResult takes in what a call returned. What a trusted result only
// repeats of what the agent had said, in this call or an earlier one, is not
// trusted for it: otherwise a reminder that is confirmed in its own words would
// make an outsider's address a trusted one.
func (l *Ledger) ObserveResult(source nacre.Source, arguments, result []byte) {
	said, docs := read(arguments), read(result)
	if source.Provenance.Label() == nacre.Untrusted {
		l.Taint(source.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.unbacked(said)
	for _, d := range own {
		l.said.add(d, source.Name)
	}
	if source.Provenance.Label() == nacre.Untrusted {
		l.classOf(source.Provenance).addAll(docs, source.Name, nil)
		return
	}
	trusted, echoes := l.sift(docs, own)
	l.classOf(source.Provenance).addAll(trusted, source.Name, spellings(own))
	l.classOf(nacre.SeenUntrusted).addAll(echoes, source.Name, nil)
}

// spellings are all in which the agent's words could come back.
func spellings(own []doc) map[string]bool {
	known := make(map[string]bool)
	for _, d := range own[:min(len(own), maxEchoes)] {
		f := forms{}
		f.text(d)
		for _, n := range f.needles {
			known[string(n.text)] = true
		}
	}
	return known
}

// unbacked returns what of the agent's words nobody trusted had said before.
func (l *Ledger) unbacked(said []doc) (own []doc) {
	for _, d := range said {
		n := newNeedle(d, false)
		forms := []needle{n}
		if len(n.runs) > 0 && len(l.classes[nacre.SeenOperator].sources(forms)) == 0 && len(l.classes[nacre.SeenTrusted].sources(forms)) == 0 {
			own = append(own, d)
		}
	}
	return own
}

// sift parts the texts of a result from what in them the agent had said.
func (l *Ledger) sift(docs, own []doc) (trusted, echoes []doc) {
	for _, d := range docs {
		n := newNeedle(d, false)
		if len(n.runs) > 0 && len(l.said.sources([]needle{n})) > 0 && len(l.classes[nacre.SeenTrusted].sources([]needle{n})) == 0 {
			echoes = append(echoes, d)
			continue
		}
		trusted = append(trusted, blot(d, own))
	}
	return trusted, echoes
}

// blot replaces in a text the words of the agent that stand in it, by what is
// in no value and ends none.
func blot(d doc, own []doc) doc {
	for _, said := range own[:min(len(own), maxEchoes)] {
		if len(said) >= minEcho && bytes.Contains(d, said) {
			d = bytes.ReplaceAll(d, said, []byte(string(utf8.RuneError)))
		}
	}
	return d
}

package provenance

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

const (
	// minEcho is the shortest part of an argument that is looked for in a result, in bytes. Shorter
	// ones are found only as the whole of a text.
	minEcho = 4
	// maxEchoes is how many values of the agent a call may have for its result
	// to be trusted: each is looked for in all of it. To find them, so many
	// words of the arguments are looked at.
	maxEchoes = 64
	maxLooked = 1024
)

// ObserveResult takes in what a call returned. What a trusted result only repeats of what the agent
// had said, in this call or an earlier one, is not trusted for it. Otherwise a reminder that is
// confirmed in its own words would make an outsider's address a trusted one. An untrusted result
// taints the session.
func (l *Ledger) ObserveResult(source nacre.Source, arguments, result []byte) {
	if source.Provenance.Label() == nacre.Untrusted {
		l.Taint(source.Name)
	}
	l.ObserveUnvouched(source, arguments, result)
}

// ObserveUnvouched is ObserveResult for a result that no outsider sent: untrusted
// values in it are kept as such, and taint nobody.
func (l *Ledger) ObserveUnvouched(source nacre.Source, arguments, result []byte) {
	said, docs := readValues(arguments), read(result)
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
	known := spellings(own)
	trusted, echoes := l.sift(docs, known)
	if len(own) > maxEchoes {
		trusted, echoes = nil, docs
	}
	except := make(map[string]bool)
	for _, s := range known {
		except[s] = true
	}
	l.classOf(source.Provenance).addAll(trusted, source.Name, except)
	l.classOf(nacre.SeenUntrusted).addAll(echoes, source.Name, nil)
}

// spellings are all in which the agent's words could come back.
func spellings(own []doc) (known []string) {
	for _, d := range own[:min(len(own), maxEchoes)] {
		known = append(known, string(d))
		f := forms{}
		f.text(d)
		for _, n := range f.needles {
			known = append(known, string(n.text))
		}
		for _, alias := range dateAliases(string(d)) {
			known = append(known, string(alias))
		}
	}
	return known
}

// unbacked returns what of the agent's words nobody trusted had said before:
// whole texts, and in them what looks like a value. It stops when there are too many.
func (l *Ledger) unbacked(said []doc) (own []doc) {
	looked := 0
	for _, d := range said {
		if !l.backed(d) {
			own = append(own, d)
		}
		for chunk := range bytes.SplitSeq(d, []byte(" ")) {
			chunk = bytes.Trim(chunk, "\"'()<>[]{},;:.!?")
			if len(chunk) < minEcho || len(chunk) == len(d) || !bytes.ContainsAny(chunk, "@./-:0123456789") {
				continue
			}
			if looked++; looked > maxLooked || len(own) > maxEchoes {
				return append(own, make([]doc, maxEchoes+1)...)
			}
			if !l.backed(chunk) {
				own = append(own, chunk)
			}
		}
	}
	return own
}

// backed reports whether the operator or a trusted result had said a text. One
// without words needs nobody.
func (l *Ledger) backed(d doc) bool {
	n := []needle{newNeedle(d, false)}
	return len(n[0].runs) == 0 || len(l.classes[nacre.SeenOperator].sources(n)) > 0 || len(l.classes[nacre.SeenTrusted].sources(n)) > 0
}

// sift parts the texts of a result from what in them the agent had said.
func (l *Ledger) sift(docs []doc, said []string) (trusted, echoes []doc) {
	var whole []byte // of many short docs, none is looked through for what is in no other
	for _, d := range docs {
		whole = append(append(whole, d...), endOfDoc)
	}
	said = slices.DeleteFunc(slices.Clone(said), func(s string) bool { return !bytes.Contains(whole, []byte(s)) })
	for _, d := range docs {
		if d[0] == jsonKind[0] {
			// The whole may hold what the agent said.
			continue
		}
		n := []needle{newNeedle(d, false)}
		if len(l.said.sources(n)) > 0 && len(l.classes[nacre.SeenTrusted].sources(n)) == 0 {
			echoes = append(echoes, d)
			continue
		}
		trusted = append(trusted, blot(d, said))
	}
	return trusted, echoes
}

// blot replaces in a text the words of the agent that stand in it, by what is
// in no value and ends none.
func blot(d doc, said []string) doc {
	for _, s := range said {
		if len(s) >= minEcho && bytes.Contains(d, []byte(s)) {
			d = bytes.ReplaceAll(d, []byte(s), []byte(string(utf8.RuneError)))
		}
	}
	return d
}

package redact

import (
	"slices"
	"strings"
)

// privateParts are the members of a JSON Web Key that nobody else may have
// (RFC 7518), where the document says that it holds one.
var privateParts = []string{"d", "p", "q", "dp", "dq", "qi", "k"}

// maxWebKey is how far from the name of its type a key's members may stand, in bytes.
const maxWebKey = 4 << 10

// webKey takes the private members around the type of a JSON Web Key in a text.
// A text is looked through once, however many types stand in it.
func (h *hunt) webKey(at int) (span, bool) {
	from, to := max(h.keyedTo, at-maxWebKey), min(len(h.text), at+maxWebKey)
	h.keyedTo = max(h.keyedTo, to)
	for i := from; i < to; i++ {
		if q := h.text[i]; q != '"' && q != '\'' {
			continue
		}
		if f, ok := h.privatePart(i, to); ok {
			h.found = append(h.found, f)
			i = f.end
		}
	}
	return span{}, false
}

// partSizes are how long the private members of a key are in base64: those of
// 256, 384 and 521 bits, and of RSA's usual sizes and their halves.
var partSizes = [...]int{43, 64, 88, 171, 256, 342, 512, 683}

// keyPart takes a private member that is known by its name and its length, for
// the type of the key may stand in another line.
func (h *hunt) keyPart(at int) (span, bool) {
	f, ok := h.privatePart(at, min(len(h.text), at+maxGap))
	return f, ok && slices.Contains(partSizes[:], f.end-f.start)
}

// privatePart is the value of a member whose name begins with the quote at i.
func (r *reading) privatePart(i, to int) (span, bool) {
	quote := r.text[i]
	name := i + 1
	for i = name; i < to && i-name <= 2 && isLetter(r.text[i]); i++ {
	}
	if !oneOf(privateParts, r.text[name:i]) {
		return span{}, false
	}
	colon := false
	for ; i < to && strings.IndexByte("\\\"' \t\r\n:", r.text[i]) >= 0 && i-name < maxGap; i++ {
		if colon && r.text[i] == quote {
			stop := r.run(base64ed, i+1)
			return span{i + 1, stop}, secretValue(key|wary, r.text[i+1:stop], true)
		}
		colon = colon || r.text[i] == ':'
	}
	return span{}, false
}

// part is how a member is judged that has the name of a private part of a JSON Web Key. Such a part
// is known by its length, or by the type that the document names.
func (w *walker) part(means naming) naming {
	end := strings.IndexByte(w.text[w.at+1:min(len(w.text), w.at+maxWebKey)], '"')
	if !w.jwk && !slices.Contains(partSizes[:], end) || means != (naming{}) {
		return means
	}
	return naming{kind: key | wary}
}

package provenance

import "strings"

// maxAtoms is how many values of one text are looked at. Of a text with more, the rest counts as
// one that was seen nowhere.
const maxAtoms = 16

// atoms are the links, addresses and accounts that stand in a normalised text:
// what somebody who reads it may follow, write to or pay. More is set where
// there are too many.
func atoms(text string) (found []string, more bool) {
	found = append(emails(text), links(text)...)
	found = append(found, accounts(text)...)
	if len(found) > maxAtoms {
		return found[:maxAtoms], true
	}
	return found, false
}

// links are what looks like a link to whoever reads a text.
func links(text string) (found []string) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \"<>`(),;[]{}|*'", r) }) {
		if link := strings.TrimRight(part, endOfURL); isLink(link) {
			found = append(found, link)
		}
	}
	return found
}

// accounts are the account numbers in a text, in any grouping.
func accounts(text string) (found []string) {
	a := aliaser{text: text}
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], ' ')
		if end < 0 {
			end = len(text) - at
		}
		end += at
		start := end - len(strings.TrimLeft(text[at:end], "\"'(<[:"))
		if word := strings.TrimRight(text[start:end], endOfURL+"\">"); isIBAN(word) {
			found = append(found, word)
		} else if word != "" {
			a.iban(start, end)
		}
		at = end + 1
	}
	for _, account := range a.found {
		found = append(found, strings.TrimPrefix(string(account), accountKind))
	}
	return found
}

// isLink reports whether a word is a link to whoever reads it: with a scheme,
// with www before it, or a host with a path.
func isLink(word string) bool {
	if scheme, rest, ok := strings.Cut(word, "://"); ok {
		return scheme != "" && rest != ""
	}
	if strings.ContainsRune(word, '@') {
		return false
	}
	host, path, slash := strings.Cut(word, "/")
	dot := strings.LastIndexByte(host, '.')
	if dot <= 0 || len(host)-dot < 3 || strings.Contains(host, "..") || !isHostText(host) {
		return false
	}
	if strings.HasPrefix(host, "www.") {
		return dot > len("www")
	}
	return slash && path != "" && !strings.ContainsAny(host[dot:], "0123456789")
}

// emails are the addresses of mailboxes in a normalised text.
func emails(text string) (found []string) {
	for from := 0; ; {
		at := strings.IndexByte(text[from:], '@')
		if at < 0 {
			return found
		}
		at += from
		start, end := at, at+1
		for start > from && isMailbox(text[start-1]) {
			start--
		}
		for end < len(text) && end-at < maxHost && isHostByte(text[end]) {
			end++
		}
		host := strings.TrimRight(text[at+1:end], ".-")
		if dot := strings.LastIndexByte(host, '.'); start < at && dot > 0 && len(host)-dot > 2 {
			found = append(found, text[start:at+1]+host)
		}
		from = max(end, at+1)
	}
}

// isMailbox knows the characters before the @, those of other scripts included.
func isMailbox(b byte) bool {
	return isLetter(b) || isDigit(b) || b >= 0x80 || strings.IndexByte("._%+-", b) >= 0
}

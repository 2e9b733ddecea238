package policy

import (
	"fmt"
	"strings"
)

// maxMatched is the longest value that is held against a pattern of a path.
// An allow does not match a longer one; an ask or a deny does.
const maxMatched = 4096

// pattern is a glob over values: a scope, an intent, an attribute, an argument.
// Without a slash, * is any run of characters. With one it is a pattern of
// paths: * stays within a part, and a part that is ** is any number of parts,
// none too. A backslash takes the meaning from the character after it.
type pattern struct {
	text  string
	paths bool
	any   bool
	// mail is the pattern of an address in small letters; nil of any other.
	mail  *part
	parts []part
}

// part is one part of a path, or the whole of what is no path.
type part struct {
	deep   bool     // **
	pieces []string // what stands between the stars
}

// parsePattern refuses what looks like a richer pattern language, which would
// silently match nothing.
func parsePattern(s string) (pattern, error) {
	if len(s) > maxGlob {
		return pattern{}, fmt.Errorf("pattern of %d bytes: the limit is %d", len(s), maxGlob)
	}
	p := pattern{text: s, paths: strings.Contains(s, "/"), any: s == "*" || s == "**"}
	one := part{pieces: []string{""}}
	for i := 0; i < len(s); i++ {
		last := len(one.pieces) - 1
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`\*?[]{}/`, s[i+1]) >= 0:
			i++
			one.pieces[last] += s[i : i+1]
		case c == '/' && p.paths:
			p.parts = append(p.parts, one)
			one = part{pieces: []string{""}}
		case c == '*':
			one.pieces = append(one.pieces, "")
		case strings.IndexByte(`\?[]{}`, c) >= 0:
			return pattern{}, fmt.Errorf("pattern %q: only * is special here; write \\%c for the character itself", s, c)
		default:
			one.pieces[last] += s[i : i+1]
		}
	}
	p.parts = append(p.parts, one)
	if strings.Contains(s, "@") && !p.paths && strings.IndexFunc(s, isBetween) < 0 {
		p.mail = &part{}
		for _, piece := range one.pieces {
			p.mail.pieces = append(p.mail.pieces, strings.ToLower(piece))
		}
	}
	return p, p.deepen()
}

// deepen turns the parts that are ** into what they mean.
func (p *pattern) deepen() error {
	for i, one := range p.parts {
		stars := len(one.pieces) - 1
		if !p.paths || stars < 2 || !strings.Contains(p.text, "**") {
			continue
		}
		if stars != 2 || strings.Join(one.pieces, "") != "" {
			return fmt.Errorf("pattern %q: ** stands alone between slashes, as in src/**", p.text)
		}
		p.parts[i].deep = true
	}
	return nil
}

// exact is the only value that matches, where there is only one.
func (p *pattern) exact() (string, bool) {
	if p.any || p.paths || len(p.parts) != 1 || len(p.parts[0].pieces) != 1 {
		return "", false
	}
	return p.parts[0].pieces[0], true
}

// beyond reports whether a value is too long to be held against the pattern.
func (p *pattern) beyond(value string) bool { return p.paths && len(value) > maxMatched }

// matches holds a value against the pattern: all ways in which it can be read
// where that lets something through, any of them where it does not.
func (p *pattern) matches(value string, read *reading, all bool) bool {
	if p.any {
		return true
	}
	if p.beyond(value) {
		return !all
	}
	if all {
		return !read.obscure && p.one(read.clean) && p.one(read.loose) && (p.paths || p.one(value)) && p.allAddresses(read.bare)
	}
	return read.obscure || p.one(value) || p.one(read.clean) || p.one(read.loose) || p.one(read.bare) || p.anyAddress(read.bare)
}

func (p *pattern) one(value string) bool {
	if !p.paths {
		return p.parts[0].matches(value)
	}
	return matchParts(p.parts, value)
}

// matches looks for the pieces from left to right, in linear time.
func (o *part) matches(value string) bool {
	last := len(o.pieces) - 1
	if last == 0 {
		return value == o.pieces[0]
	}
	if !strings.HasPrefix(value, o.pieces[0]) {
		return false
	}
	value = value[len(o.pieces[0]):]
	for _, piece := range o.pieces[1:last] {
		at := strings.Index(value, piece)
		if at < 0 {
			return false
		}
		value = value[at+len(piece):]
	}
	return strings.HasSuffix(value, o.pieces[last])
}

// matchParts holds the parts of a path against those of a pattern. Where a
// part does not fit, the last ** takes one part more: no other can help.
func matchParts(parts []part, value string) bool {
	i, at := 0, 0
	deep, from := -1, 0
	for at <= len(value) {
		end := at + strings.IndexByte(value[at:], '/')
		if end < at {
			end = len(value)
		}
		switch {
		case i < len(parts) && parts[i].deep:
			deep, from = i, at
			i++
			continue
		case i < len(parts) && parts[i].matches(value[at:end]):
			i, at = i+1, end+1
			continue
		case deep < 0:
			return false
		}
		skip := strings.IndexByte(value[from:], '/')
		if skip < 0 {
			at = len(value) + 1
		} else {
			at = from + skip + 1
		}
		i, from = deep+1, at
	}
	for i < len(parts) && parts[i].deep {
		i++
	}
	return i == len(parts)
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of an iCalendar object.
const (
	maxCalendar = 4 << 20 // bytes
	maxNesting  = 8       // components within components
	maxOctets   = 75      // of a line before it is folded (RFC 5545, 3.1)
)

// A component is a part of an iCalendar object (RFC 5545). It is kept as the
// lines that were read: what is not changed is written again byte for byte,
// properties nobody here knows included.
type component struct {
	name  string // upper case; empty for the whole of a file
	begin string // the raw line, as end
	end   string
	parts []part
}

// A part is a content line as it stands, folds and line ends included, or a component.
type part struct {
	raw   string
	child *component
}

// A property is what one content line says.
type property struct {
	name   string
	params map[string]string // by upper-case name
	value  string
}

// parseCalendar reads a file of one or more VCALENDARs, in linear time. Whatever is not one
// from its first line to its last is an error.
func parseCalendar(data string) (*component, error) {
	if len(data) > maxCalendar {
		return nil, fmt.Errorf("%d bytes, at most %d", len(data), maxCalendar)
	}
	if !utf8.ValidString(data) || strings.ContainsRune(data, 0) {
		return nil, errors.New("not text in UTF-8")
	}
	root := &component{}
	open := []*component{root}
	lines := splitLines(strings.TrimPrefix(data, "\ufeff"))
	for i, raw := range lines {
		var err error
		if open, err = addLine(open, raw); err != nil {
			return nil, fmt.Errorf("content line %d: %w", i+1, err)
		}
	}
	if len(open) > 1 {
		return nil, fmt.Errorf("ends within %s", open[len(open)-1].name)
	}
	if len(root.children("VCALENDAR")) == 0 {
		return nil, errors.New("no VCALENDAR in it")
	}
	return root, nil
}

// splitLines cuts text into content lines: a line that begins with a space or
// a tab goes on with the one before.
func splitLines(data string) []string {
	var lines []string
	start := 0
	for at := 0; at < len(data); {
		end := strings.IndexByte(data[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
		if at < len(data) && (data[at] == ' ' || data[at] == '\t') {
			continue
		}
		lines = append(lines, data[start:at])
		start = at
	}
	if start < len(data) {
		lines = append(lines, data[start:])
	}
	return lines
}

// addLine puts a line where it belongs; the last of open is the innermost component.
func addLine(open []*component, raw string) ([]*component, error) {
	in := open[len(open)-1]
	text := unfold(raw)
	if strings.TrimSpace(text) == "" {
		in.parts = append(in.parts, part{raw: raw})
		return open, nil
	}
	name, ok := propertyName(text)
	if !ok {
		return nil, errors.New("not a property")
	}
	value := strings.ToUpper(strings.TrimSpace(text[len(name)+1:]))
	switch strings.ToUpper(name) {
	case "BEGIN":
		if len(open) > maxNesting || len(open) == 1 && value != "VCALENDAR" || value == "" {
			return nil, fmt.Errorf("BEGIN:%.40s has no place here", value)
		}
		child := &component{name: value, begin: raw}
		in.parts = append(in.parts, part{child: child})
		return append(open, child), nil
	case "END":
		if in.name != value || value == "" {
			return nil, fmt.Errorf("END:%.40s ends nothing", value)
		}
		in.end = raw
		return open[:len(open)-1], nil
	}
	if len(open) == 1 {
		return nil, errors.New("outside of a VCALENDAR")
	}
	in.parts = append(in.parts, part{raw: raw})
	return open, nil
}

// propertyName is the name that a content line begins with.
func propertyName(text string) (string, bool) {
	end := strings.IndexAny(text, ":;")
	if end <= 0 {
		return "", false
	}
	for _, c := range []byte(text[:end]) {
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", false
		}
	}
	return text[:end], true
}

func unfold(raw string) string {
	text := strings.TrimRight(raw, "\r\n")
	if !strings.Contains(text, "\n") {
		return text
	}
	return strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(text)
}

// parseProperty reads a content line whose parameters matter.
func parseProperty(raw string) (property, error) {
	text := unfold(raw)
	name, ok := propertyName(text)
	if !ok {
		return property{}, errors.New("not a property")
	}
	p := property{name: strings.ToUpper(name), params: map[string]string{}}
	rest := text[len(name):]
	for strings.HasPrefix(rest, ";") {
		key, after, ok := strings.Cut(rest[1:], "=")
		if !ok {
			return p, fmt.Errorf("%s: a parameter without a value", p.name)
		}
		end, quoted := 0, false
		for end < len(after) && (quoted || after[end] != ';' && after[end] != ':') {
			if after[end] == '"' {
				quoted = !quoted
			}
			end++
		}
		p.params[strings.ToUpper(key)] = strings.Trim(after[:end], `"`)
		rest = after[end:]
	}
	if !strings.HasPrefix(rest, ":") {
		return p, fmt.Errorf("%s: no value", p.name)
	}
	p.value = rest[1:]
	return p, nil
}

// children are the components of that name directly within.
func (c *component) children(name string) []*component {
	var found []*component
	for _, p := range c.parts {
		if p.child != nil && p.child.name == name {
			found = append(found, p.child)
		}
	}
	return found
}

func (p part) is(name string) bool {
	if p.child != nil {
		return false
	}
	have, ok := propertyName(unfold(p.raw))
	return ok && strings.EqualFold(have, name)
}

// get is the first property of that name; ok is false where there is none, or
// where it cannot be read.
func (c *component) get(name string) (p property, ok bool) {
	i := slices.IndexFunc(c.parts, func(p part) bool { return p.is(name) })
	if i < 0 {
		return property{}, false
	}
	p, err := parseProperty(c.parts[i].raw)
	return p, err == nil
}

// text is the unescaped value of a property, or "".
func (c *component) text(name string) string {
	p, _ := c.get(name)
	return unescape(p.value)
}

// set replaces a property whole, or adds it before the components within. The
// value is one that holds no line end: what people wrote goes through [escape].
func (c *component) set(name, value string) {
	line := part{raw: fold(name + ":" + value)}
	at := slices.IndexFunc(c.parts, func(p part) bool { return p.is(name) })
	if at < 0 {
		at = slices.IndexFunc(c.parts, func(p part) bool { return p.child != nil })
	}
	if at < 0 {
		at = len(c.parts)
	}
	after := slices.DeleteFunc(slices.Clone(c.parts[at:]), func(p part) bool { return p.is(name) })
	c.parts = append(append(c.parts[:at:at], line), after...)
}

// removeChildren drops the components that drop says.
func (c *component) removeChildren(drop func(*component) bool) {
	c.parts = slices.DeleteFunc(c.parts, func(p part) bool { return p.child != nil && drop(p.child) })
}

func (c *component) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func (c *component) write(b *strings.Builder) {
	writeLine(b, c.begin)
	for _, p := range c.parts {
		if p.child != nil {
			p.child.write(b)
		} else {
			writeLine(b, p.raw)
		}
	}
	writeLine(b, c.end)
}

// writeLine ends a last line that was not ended in the file.
func writeLine(b *strings.Builder, raw string) {
	b.WriteString(raw)
	if raw != "" && !strings.HasSuffix(raw, "\n") {
		b.WriteString("\r\n")
	}
}

func newComponent(name string) *component {
	return &component{name: name, begin: "BEGIN:" + name + "\r\n", end: "END:" + name + "\r\n"}
}

// newCalendar is a file with an empty calendar of that name.
func newCalendar(name string) *component {
	calendar := newComponent("VCALENDAR")
	calendar.set("VERSION", "2.0")
	calendar.set("PRODID", "-//nacre//reminders//EN")
	if name != "" {
		calendar.set("X-WR-CALNAME", escape(name))
	}
	return &component{parts: []part{{child: calendar}}}
}

// fold breaks a content line into lines of at most 75 octets, never within a character.
func fold(line string) string {
	var b strings.Builder
	room := maxOctets
	for _, r := range line {
		size := utf8.RuneLen(r)
		if size > room {
			b.WriteString("\r\n ")
			room = maxOctets - 1
		}
		b.WriteRune(r)
		room -= size
	}
	b.WriteString("\r\n")
	return b.String()
}

// escape makes a TEXT value (RFC 5545, 3.3.11): every line end becomes \n, so
// that no text can begin a line of its own.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace(text)
}

func unescape(value string) string {
	return strings.NewReplacer(`\\`, `\`, `\;`, ";", `\,`, ",", `\n`, "\n", `\N`, "\n").Replace(value)
}

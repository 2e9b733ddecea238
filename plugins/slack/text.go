package main

import "strings"

// plain is what a person wrote, from the form in which Slack brings it. There, an address or
// somebody who is called stands in angle brackets, and an angle bracket is an entity.
func plain(text string) string {
	var b strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, "<")
		b.WriteString(entities(before))
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, ">")
		if !closed {
			b.WriteString("<" + entities(rest))
			break
		}
		b.WriteString(named(inner))
		text = after
	}
	return b.String()
}

// named is what stands in angle brackets.
func named(inner string) string {
	what, label, hasLabel := strings.Cut(inner, "|")
	what, label = entities(what), entities(label)
	switch {
	case strings.HasPrefix(what, "@"): // a person, by the id that never changes
		return what
	case strings.HasPrefix(what, "#") && hasLabel && label != "":
		return "#" + label
	case strings.HasPrefix(what, "#"):
		return what
	case strings.HasPrefix(what, "!") && hasLabel && label != "":
		return label
	case strings.HasPrefix(what, "!"):
		return "@" + what[1:]
	case hasLabel && label != "" && label != what && "mailto:"+label != what:
		return label + " (" + what + ")"
	}
	return strings.TrimPrefix(what, "mailto:")
}

func entities(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

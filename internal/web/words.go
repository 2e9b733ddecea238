package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// words are what templates say things with. plain is for what others wrote: nothing in it
// reorders what is read, or hides.
func words() template.FuncMap {
	return template.FuncMap{
		"plain":      question.Escape,
		"lines":      lines,
		"many":       many,
		"bytes":      terminal.Bytes,
		"moment":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"with_token": func(id nacre.SessionID, token string) stopping { return stopping{id, token} },
		"machine":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}

// stopping is what a form has that stops a session.
type stopping struct {
	ID    nacre.SessionID
	Token string
}

// lines is a text that others wrote, a line a line.
func lines(text string) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range all {
		all[i] = question.Escape(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(all, "\n")
}

// ago is how long since something is, which may be to come where this machine's clock was ahead.
func ago(d time.Duration) string {
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// span is how long something took, in the unit that a person would take.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(0, d/time.Second))
}

// many counts things, which one word names.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

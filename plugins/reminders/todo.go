package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/plugin"
)

const (
	maxTitle    = 500       // characters, as the manifest says; longer ones of other programs are cut
	maxID       = 255       // bytes
	maxAnswer   = 768 << 10 // bytes of reminders in one answer, below the largest result
	utcTime     = basicTime + "Z"
	localAnswer = "2006-01-02T15:04:05"
)

// A reminder is what an agent is told of a VTODO.
type reminder struct {
	ID    string `json:"reminder_id"`
	Title string `json:"title"`
	// Due has an offset, except where the calendar gives none: a whole day, or a
	// time that is meant wherever one is.
	Due       string `json:"due,omitempty"`
	List      string `json:"list"`
	Completed bool   `json:"completed"`
	Repeats   bool   `json:"repeats,omitempty"`
	Created   string `json:"created,omitempty"`

	at time.Time // what Due is sorted by; zero without one
}

// A draft is a reminder that is not kept yet.
type draft struct {
	title string
	due   time.Time // zero for none
	list  string
}

// newDraft checks what an agent wrote.
func newDraft(title, due, list string) (draft, error) {
	d := draft{title: strings.TrimSpace(title), list: list}
	if d.title == "" {
		return d, &plugin.ToolError{Code: "TITLE", Message: "A reminder needs a title"}
	}
	if utf8.RuneCountInString(d.title) > maxTitle || !printable(d.title) {
		return d, &plugin.ToolError{Code: "TITLE", Message: fmt.Sprintf(
			"A title has at most %d characters, and no control characters but line ends and tabs", maxTitle)}
	}
	if err := checkList(list); err != nil {
		return d, err
	}
	if due == "" {
		return d, nil
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(due))
	if d.due = t.UTC(); err != nil || d.due.Year() < 1 || d.due.Year() > 9999 {
		return d, &plugin.ToolError{Code: "DUE", Message: "due is not a date with time and zone, such as 2026-02-17T17:00:00Z"}
	}
	return d, nil
}

func checkList(name string) error {
	if name == "" || len(name) > maxListName || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return &plugin.ToolError{Code: "LIST_NAME", Message: fmt.Sprintf(
			"The name of a list has 1 to %d bytes, no control characters, and no space at its ends", maxListName)}
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// todo makes the VTODO of a draft.
func (d draft) todo(uid string, now time.Time) *component {
	stamp := now.UTC().Format(utcTime)
	c := newComponent("VTODO")
	c.set("UID", escape(uid))
	c.set("DTSTAMP", stamp)
	c.set("CREATED", stamp)
	c.set("LAST-MODIFIED", stamp)
	c.set("SUMMARY", escape(d.title))
	if !d.due.IsZero() {
		c.set("DUE", d.due.Format(utcTime))
	}
	c.set("STATUS", "NEEDS-ACTION")
	return c
}

// isOccurrence tells one changed occurrence of a repeating reminder from the reminder.
func (c *component) isOccurrence() bool {
	_, is := c.get("RECURRENCE-ID")
	return is
}

func (c *component) repeats() bool {
	_, rule := c.get("RRULE")
	_, dates := c.get("RDATE")
	return rule || dates
}

func (c *component) isCompleted() bool {
	_, done := c.get("COMPLETED")
	status := strings.ToUpper(c.text("STATUS"))
	return done || status == "COMPLETED" || status == "CANCELLED"
}

// complete marks a VTODO as done. One that repeats is left alone: which of its
// occurrences is meant, only a calendar program can ask.
func (c *component) complete(now time.Time) (changed bool, err error) {
	if c.isCompleted() {
		return false, nil
	}
	if c.repeats() {
		return false, &plugin.ToolError{Code: "REPEATS", Message: "This reminder repeats: complete it in a calendar program, or delete all of it"}
	}
	stamp := now.UTC().Format(utcTime)
	c.set("STATUS", "COMPLETED")
	c.set("COMPLETED", stamp)
	c.set("PERCENT-COMPLETE", "100")
	c.set("LAST-MODIFIED", stamp)
	c.set("DTSTAMP", stamp)
	return true, nil
}

// reminders are the VTODOs of a calendar file, without changed occurrences.
func (c *component) reminders(list string, id func(uid string) string) []reminder {
	var found []reminder
	for _, calendar := range c.children("VCALENDAR") {
		for _, todo := range calendar.children("VTODO") {
			if todo.isOccurrence() {
				continue
			}
			r := reminder{
				ID: id(todo.text("UID")), Title: cut(todo.text("SUMMARY"), maxTitle), List: list,
				Completed: todo.isCompleted(), Repeats: todo.repeats(),
			}
			if created, err := time.Parse(utcTime, todo.text("CREATED")); err == nil {
				r.Created = created.Format(time.RFC3339)
			}
			if due, ok := todo.get("DUE"); ok {
				r.Due, r.at = readDue(due, calendar)
			}
			found = append(found, r)
		}
	}
	return found
}

// todos are the VTODOs of a UID, without changed occurrences.
func (c *component) todos(uid string) []*component {
	var found []*component
	for _, calendar := range c.children("VCALENDAR") {
		for _, todo := range calendar.children("VTODO") {
			if todo.text("UID") == uid && !todo.isOccurrence() {
				found = append(found, todo)
			}
		}
	}
	return found
}

// readDue is a DUE as it is shown and as it is sorted. A time without a zone
// sorts as if it were one of UTC.
func readDue(p property, calendar *component) (string, time.Time) {
	value := strings.ToUpper(strings.TrimSpace(p.value))
	if t, err := time.Parse(utcTime, value); err == nil {
		return t.Format(time.RFC3339), t
	}
	if t, err := time.Parse(basicDay, value); err == nil {
		return t.Format(time.DateOnly), t
	}
	t, err := time.Parse(basicTime, value)
	if err != nil {
		return "", time.Time{}
	}
	if tzid := p.params["TZID"]; tzid != "" {
		if at, ok := zoned(t, tzid, calendar); ok {
			return at.Format(time.RFC3339), at
		}
	}
	return t.Format(localAnswer), t
}

func cut(text string, runes int) string {
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	return string([]rune(text)[:runes-1]) + "…"
}

// byDue sorts by due time; what has none comes last, in the order it was made.
func byDue(found []reminder) {
	slices.SortStableFunc(found, func(a, b reminder) int {
		if a.at.IsZero() != b.at.IsZero() {
			return cmp.Compare(boolInt(a.at.IsZero()), boolInt(b.at.IsZero()))
		}
		return a.at.Compare(b.at)
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// The most that is shown of each part of a question, in bytes.
const (
	maxArguments = 4 << 10
	maxWords     = 512
	maxWhy       = 512
	// maxOrigins is how many risky values are told apart.
	maxOrigins = 12
	// maxFiles is how many files, maxArgument and maxName how much of each, and
	// shownDigest how much of its digest.
	maxFiles    = 16
	maxArgument = 64
	maxName     = 256
	shownDigest = 16
)

// Render shows a question as data, on a few lines: nothing in it can move the
// cursor, reorder what is read, or hide. What is left out is marked, and the
// agent's own words are named as such (D-13).
func Render(q nacre.Question) string {
	r := renderer{}
	r.question(q)
	return r.String()
}

// RenderWhole shows all of a question, its arguments on lines of their own, which a bar
// tells from those of nacre (U-12).
func RenderWhole(q nacre.Question) string {
	r := renderer{whole: true}
	r.question(q)
	return r.String()
}

// goesOn begins each row of a line that has more than one.
const goesOn = "    ↳ "

// Folded is a question as a terminal of so many columns shows it. A row that goes on with the one
// before says so, so that no part of a long value passes for a line of nacre's (U-12).
func Folded(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, row := range Fold(strings.TrimSuffix(line, "\n"), columns, goesOn) {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}

// IsCut tells whether Render leaves anything out of a question. What was left out is approved
// by nobody who was not shown the whole.
func IsCut(q nacre.Question) bool {
	r := renderer{}
	r.question(q)
	return r.cut
}

// renderer writes a question down, whole or not.
type renderer struct {
	strings.Builder
	whole bool
	// cut is whether anything was left out.
	cut bool
}

func (r *renderer) line(format string, values ...any) {
	_, _ = fmt.Fprintf(r, format+"\n", values...) // it never fails
}

// shown is a text as far as there is room for it.
func (r *renderer) shown(s string, limit int) string {
	if r.whole || len(s) <= limit {
		return question.Escape(s)
	}
	r.cut = true
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s <CUT: %d more bytes are not shown>", question.Escape(s[:end]), len(s)-end)
}

// room is how many of a list there is room for.
func (r *renderer) room(have, most int) int {
	if r.whole || have <= most {
		return have
	}
	r.cut = true
	return most
}

func (r *renderer) question(q nacre.Question) {
	if r.egress(q) || r.lease(q) || r.folder(q) {
		return
	}
	r.line("? %s  %s wants to run", question.Escape(q.ID), r.shown(string(q.Group), maxWhy))
	r.line("    tool       %s", r.shown(string(q.Capability), maxWhy))
	r.line("    arguments  %s", r.arguments(q.Arguments))
	for _, look := range question.Looks(q) {
		r.line("    look       %s", r.shown(look, maxWhy))
	}
	files := r.room(len(q.Files), maxFiles)
	for _, file := range q.Files[:files] {
		r.line("    %s", r.file(file))
	}
	if more := len(q.Files) - files; more > 0 {
		r.line("    and %d more files are not shown", more)
	}
	r.origins(q)
	if q.Text != nil {
		r.line("    all of them are from one text, %s: \"%s\"", r.shown(q.Text.Source, maxWhy), r.shown(q.Text.Text, maxWords))
	}
	r.reason(q)
	r.words(q)
	r.expiry(q)
}

// origins says where the risky values came from.
func (r *renderer) origins(q nacre.Question) {
	origins := r.room(len(q.Origins), maxOrigins)
	for _, origin := range q.Origins[:origins] {
		r.line("    %s", r.shown(question.CameFrom(origin), maxWhy))
	}
	if more := len(q.Origins) - origins; more > 0 {
		r.line("    and %d more risky values are not shown", more)
	}
}

// words are what the agent says of itself.
func (r *renderer) words(q nacre.Question) {
	if q.AgentWords != "" {
		r.line("    the agent says (not checked): \"%s\"", r.shown(q.AgentWords, maxWords))
	}
}

// reason says why it is asked, and expiry until when.
func (r *renderer) reason(q nacre.Question) {
	if q.Why != "" {
		r.line("    asked for  %s", r.shown(q.Why, maxWhy))
	}
}

func (r *renderer) expiry(q nacre.Question) {
	r.line("    expires    %s", q.Expires.Format("15:04:05 MST"))
}

// arguments are a JSON document: as it is, or a member a line.
func (r *renderer) arguments(raw json.RawMessage) string {
	var indented bytes.Buffer
	if !r.whole || json.Indent(&indented, raw, "", "  ") != nil {
		return r.shown(string(raw), maxArguments)
	}
	var b strings.Builder
	for line := range strings.Lines(indented.String()) {
		b.WriteString("\n      │ " + question.Escape(strings.TrimSuffix(line, "\n")))
	}
	return b.String()
}

// file says what a file that would be used is, and not what it holds. Its
// name is the agent's, so it comes last: nothing in it can pass for the rest.
func (r *renderer) file(f nacre.FilePin) string {
	digest := question.Escape(f.SHA256)
	if !r.whole {
		digest = question.Escape(f.SHA256[:min(len(f.SHA256), shownDigest)]) + "…"
	}
	return fmt.Sprintf("file       %s: %d bytes, sha256 %s, \"%s\"",
		r.shown(f.Argument, maxArgument), f.Bytes, digest, r.shown(f.Name, maxName))
}

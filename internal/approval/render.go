package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	// maxText is the longest text that can be vouched for.
	maxText = 4 << 10
	maxWhy  = 512
	// maxOrigins is how many risky values are told apart.
	maxOrigins = 12
	// maxFiles is how many files, maxArgument and maxName how much of each, and
	// shownDigest how much of its digest.
	maxFiles    = 16
	maxArgument = 64
	maxName     = 256
	shownDigest = 16
)

// extent is how much is shown of a question.
type extent struct {
	arguments func(raw json.RawMessage) string
	// files, origins and words are how many of each, digest how much of one.
	files, origins, words, digest int
}

// Render shows a question as data, on a few lines: nothing in it can move the
// cursor, reorder what is read, or hide. What is left out is marked, and the
// agent's own words are named as such (D-13).
func Render(q nacre.Question) string {
	return render(q, extent{
		arguments: func(raw json.RawMessage) string { return shown(string(raw), maxArguments) },
		files:     maxFiles, origins: maxOrigins, words: maxWords, digest: shownDigest,
	})
}

// RenderWhole shows all of a question, its arguments on lines of their own, which a bar
// tells from those of nacre (U-12).
func RenderWhole(q nacre.Question) string {
	return render(q, extent{
		arguments: barred, files: len(q.Files), origins: len(q.Origins), words: max(len(q.AgentWords), maxText), digest: hex.EncodedLen(sha256.Size),
	})
}

// barred is a JSON document, a member a line.
func barred(raw json.RawMessage) string {
	var indented bytes.Buffer
	if json.Indent(&indented, raw, "", "  ") != nil {
		return question.Escape(string(raw))
	}
	var b strings.Builder
	for line := range strings.Lines(indented.String()) {
		b.WriteString("\n      │ " + question.Escape(strings.TrimSuffix(line, "\n")))
	}
	return b.String()
}

func render(q nacre.Question, most extent) string {
	if text, ok := renderEgress(q); ok {
		return text
	}
	if text, ok := renderLease(q); ok {
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "? %s  %s wants to run\n", question.Escape(q.ID), shown(string(q.Group), maxWhy))
	fmt.Fprintf(&b, "    tool       %s\n", shown(string(q.Capability), maxWhy))
	fmt.Fprintf(&b, "    arguments  %s\n", most.arguments(q.Arguments))
	for _, look := range question.Looks(q) {
		fmt.Fprintf(&b, "    look       %s\n", shown(look, maxWhy))
	}
	for _, file := range q.Files[:min(len(q.Files), most.files)] {
		fmt.Fprintf(&b, "    %s\n", describe(file, most.digest))
	}
	if more := len(q.Files) - most.files; more > 0 {
		fmt.Fprintf(&b, "    and %d more files are not shown\n", more)
	}
	for _, origin := range q.Origins[:min(len(q.Origins), most.origins)] {
		fmt.Fprintf(&b, "    %s\n", shown(question.CameFrom(origin), maxWhy))
	}
	if more := len(q.Origins) - most.origins; more > 0 {
		fmt.Fprintf(&b, "    and %d more risky values are not shown\n", more)
	}
	if q.Text != nil {
		fmt.Fprintf(&b, "    all of them are from one text, %s: \"%s\"\n", shown(q.Text.Source, maxWhy), shown(q.Text.Text, most.words))
	}
	if q.Why != "" {
		fmt.Fprintf(&b, "    asked for  %s\n", shown(q.Why, maxWhy))
	}
	if q.AgentWords != "" {
		fmt.Fprintf(&b, "    the agent says (not checked): \"%s\"\n", shown(q.AgentWords, most.words))
	}
	fmt.Fprintf(&b, "    expires    %s\n", q.Expires.Format("15:04:05 MST"))
	return b.String()
}

// describe says what a file that would be used is, and not what it holds. Its
// name is the agent's, so it comes last: nothing in it can pass for the rest.
func describe(f nacre.FilePin, most int) string {
	digest := question.Escape(f.SHA256[:min(len(f.SHA256), most)])
	if most < hex.EncodedLen(sha256.Size) {
		digest += "…"
	}
	return fmt.Sprintf("file       %s: %d bytes, sha256 %s, \"%s\"",
		shown(f.Argument, maxArgument), f.Bytes, digest, shown(f.Name, maxName))
}

func shown(s string, limit int) string {
	if len(s) <= limit {
		return question.Escape(s)
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s <CUT: %d more bytes are not shown>", question.Escape(s[:end]), len(s)-end)
}

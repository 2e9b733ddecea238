package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// Limits of an issue; what servers take is a little more.
const (
	maxBody    = 60_000 // bytes
	maxAccount = 30_000 // bytes of the agent's text
	maxTitle   = 250    // bytes
	maxLabel   = 50     // bytes
	cutMark    = "\n[… cut]"
)

// A report is an issue before it is filed.
type report struct {
	title  string
	body   string
	labels []string
	// marker is in the body, and the same for the same calls: a report that is
	// there already is found by it.
	marker string
}

func newReport(args arguments, found []record, token nacre.Secret) report {
	r := report{marker: "nacre-report:" + markerOf(args, found)}
	r.title = cut(strings.Join(strings.Fields(cleaned(args.Title, token)), " "), maxTitle, "…")
	if r.title == "" {
		r.title = "Report without a title"
	}
	for _, l := range args.Labels {
		if l = strings.Join(strings.Fields(cleaned(l, token)), " "); l != "" && len(l) <= maxLabel {
			r.labels = append(r.labels, l)
		}
	}
	account := cut(cleaned(args.Description, token), maxAccount, cutMark)
	fence := fenceFor(account)
	var b strings.Builder
	fmt.Fprintf(&b, "Severity: **%s**\n\n## What the agent says\n\n", severity(args.Severity))
	b.WriteString("An AI agent wrote this, and a person agreed to file it. It is data: nobody checked what it says, and it asks nothing of whoever reads it.\n\n")
	fmt.Fprintf(&b, "%stext\n%s\n%s\n\n## What the server recorded\n\n", fence, account, fence)
	writeEvidence(&b, args.Correlation, rows(found), token)
	fmt.Fprintf(&b, "\n<!-- %s -->\n", r.marker)
	r.body = b.String()
	return r
}

// markerOf depends on when and where the calls were made: agents begin their
// correlations anew in each session.
func markerOf(args arguments, found []record) string {
	h := sha256.New()
	seen := map[string]bool{}
	for _, rec := range found {
		if id := string(rec.Correlation); !seen[id] {
			seen[id] = true
			_, _ = fmt.Fprintf(h, "%q %q %q\n", id, rec.Session, rec.Time.UTC()) // a hash takes everything
		}
	}
	if len(seen) == 0 {
		_, _ = fmt.Fprintf(h, "%q %q %q\n", args.Correlation, args.Title, args.Description)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// writeEvidence writes as many rows as there is room for.
func writeEvidence(b *strings.Builder, ids []string, all []row, token nacre.Secret) {
	if len(all) == 0 {
		fmt.Fprintf(b, "Nothing about the %d calls that the agent names.\n", len(ids))
		return
	}
	b.WriteString("| time (UTC) | correlation | tool | step | stage | outcome | code | original code | ms |\n|---|---|---|---|---|---|---|---|---|\n")
	for i, r := range all {
		line := r.line(token)
		if b.Len()+len(line) > maxBody-500 {
			fmt.Fprintf(b, "\n%d more records are left out.\n", len(all)-i)
			break
		}
		b.WriteString(line)
	}
	var none []string
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(r row) bool { return r.correlation == id }) {
			none = append(none, code(id, token))
		}
	}
	if len(none) > 0 {
		fmt.Fprintf(b, "\nNothing about %s.\n", strings.Join(none, ", "))
	}
}

func (r row) line(token nacre.Secret) string {
	stage, millis := "–", "–"
	if r.stage > 0 {
		stage = strconv.Itoa(r.stage)
	}
	if r.millis >= 0 {
		millis = strconv.FormatInt(r.millis, 10)
	}
	return "| " + strings.Join([]string{
		r.time, code(r.correlation, token), word(r.tool), word(r.step), stage, word(r.outcome), word(r.code), word(r.original), millis,
	}, " | ") + " |\n"
}

// code is an agent's name of a call, which may be any text, in a table's cell.
func code(text string, token nacre.Secret) string {
	text = strings.Map(func(r rune) rune {
		if r == '`' || r == '|' || r == '\\' || r == '\n' || r == '\t' {
			return '·'
		}
		return r
	}, cleaned(text, token))
	if strings.TrimSpace(text) == "" {
		return "–"
	}
	return "`" + text + "`"
}

func severity(text string) string {
	if slices.Contains([]string{"low", "medium", "high"}, text) {
		return text
	}
	return "not said"
}

// fenceFor is longer than any fence in the text, so that none ends it.
func fenceFor(text string) string {
	longest, run := 2, 0
	for _, c := range []byte(text) {
		if c != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return strings.Repeat("`", longest+1)
}

func cut(text string, limit int, mark string) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

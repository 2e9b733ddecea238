package report_test

import (
	"bytes"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/report"
)

// FuzzReport: a report is found or refused; what is found is one object.
func FuzzReport(f *testing.F) {
	for _, s := range []string{`{"a": 1}`, "---\na: 1\n---", "x\n```json\n{}\n```", "x\n{\n}", "---", "```\n```", "{", "}", "---\n- a\n---", "---\n? a\n---", "---\na: &b [*b]\n---"} {
		corpus.Add(f, []byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		found, err := report.Read(said)
		if (found == nil) == (err == nil) {
			t.Fatalf("%v, %v", found, err)
		}
		if err == nil && !bytes.ContainsAny(said, "{-") {
			t.Fatal("a report out of nothing")
		}
	})
}

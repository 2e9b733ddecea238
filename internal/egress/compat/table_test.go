package compat_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// versionOf prints what each client calls itself.
const versionOf = `for p in git npm node pip3 python3 cargo go goclient curl wget apt-get claude codex; do
command -v $p >/dev/null || continue
case $p in
go) v=$(go version);;
goclient) v=$(go version);;
pip3) v=$(python3 -m pip --version 2>/dev/null | cut -d' ' -f1-2) || continue;;
*) v=$($p --version 2>/dev/null | head -n1);;
esac
echo "$p	$v"
done`

// versions says which programs the sandbox sees, and their versions.
func (b *bench) versions(t *testing.T) map[string]string {
	t.Helper()
	out, err := b.exec("exec", "-q", "--project", b.project, "--", "sh", "-c", prelude+versionOf)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		program, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
		found[program] = number(text)
	}
	return found
}

// number is the part of a version line that is one.
func number(text string) string {
	for word := range strings.FieldsSeq(text) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "go"), "v")
		if word != "" && word[0] >= '0' && word[0] <= '9' {
			return strings.TrimSuffix(word, ",")
		}
	}
	return "?"
}

// table is the matrix, one row a case.
func (r *results) table(all []testCase) string {
	var b strings.Builder
	b.WriteString("| client | case | passed through | opened host |\n|---|---|---|---|\n")
	for _, c := range all {
		name := c.client
		if v := r.versions[c.program]; v != "" {
			name += " " + v
		}
		passed, opened := c, c
		opened.onBench = true
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, c.name, r.cells[passed.key()], r.cells[opened.key()])
	}
	return b.String()
}

const (
	document  = "../../../docs/compatibility.md"
	tableFrom = "<!-- table: make by: go test ./internal/egress/compat -write -->\n"
	tableTo   = "<!-- end of table -->\n"
)

func writeDocument(table string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableFrom)
	_, after, ok2 := strings.Cut(rest, tableTo)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table", document)
	}
	return os.WriteFile(document, []byte(before+tableFrom+table+tableTo+after), 0o644) //nolint:gosec // a document
}

// TestTheDocumentNamesEveryCase fails when a case was added and the table was not written again.
func TestTheDocumentNamesEveryCase(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	for _, c := range cases() {
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.HasPrefix(row, "| "+c.client) && strings.Contains(row, "| "+c.name+" | ")
		}) {
			t.Errorf("%s: no row for %s, %s: go test ./internal/egress/compat -write", document, c.client, c.name)
		}
	}
}

package firewall_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/redact"
)

// K-15: what Harmless says nothing of is left to JSON, so it may say yes of nothing that
// JSON would change, and has to of what tables are made of.
func TestNothingIsHarmlessThatIsReplaced(t *testing.T) {
	e := firewall.Redactor(redact.New())
	names := []string{`"id"`, `"note"`, `"city"`, `"password"`, `"email"`, `"db_password"`, `"d"`, `"name"`, `"na\u006de"`, `"ghp_abcdefghijklmnopqrstuvwxyz0123456789"`}
	values := []string{
		`"EUR"`, `"Customer 7"`, `12.5`, `-3`, `true`, `"ada@example.com"`, `"password: hunter2hunter2"`, `4111111111111111`, `"4111 1111 1111 1111"`,
		`"ghp_abcdefghijklmnopqrstuvwxyz0123456789"`, `"\u0067hp_abcdefghijklmnopqrstuvwxyz0123456789"`, `{}`,
	}
	harmless := 0
	for _, name := range names {
		for _, value := range values {
			if !e.Harmless([]byte(name), []byte(value)) {
				continue
			}
			harmless++
			document := `[{` + name + `:` + value + `}]`
			if out, _, err := e.JSON([]byte(document)); err != nil || string(out) != document {
				t.Errorf("%s is harmless, and becomes %s (%v)", document, out, err)
			}
		}
	}
	if want := 3 * 4; harmless != want { // of id, note and city, two words and two numbers each
		t.Errorf("%d are harmless, want %d", harmless, want)
	}
}

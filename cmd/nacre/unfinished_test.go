package main_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// K-21: a call that began and has no end is shown by doctor and by audit verify,
// with where it stands.
func TestCallsWithoutAnEndAreNamed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	keys, err := audit.LoadKeys(i.state("keys"))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.Open(t.Context(), audit.Options{Root: i.state("audit"), Chain: "kc7f9a.1", Keys: keys, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"purge", "list"} {
		if err := chain.Append(t.Context(), nacre.Record{Kind: nacre.KindCallBegin, Correlation: "mine", Detail: json.RawMessage(`{"call":"` + name + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := chain.Append(t.Context(), nacre.Record{Kind: nacre.KindCallEnd, Correlation: "mine", Detail: json.RawMessage(`{"call":"list"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := chain.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.nacre("audit", "verify").want(t, 0, "kc7f9a.1: ", "1 calls without an end: record 1")
	has(t, i.nacre("doctor").stdout, "1 calls began and have no end", "chain kc7f9a.1", "nacre audit show SESSION")
}

package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// U-05: a host that is opened without a secret is asked what its rules name and nothing
// else, and no credential of the sandbox's own arrives there.
func TestAHostIsOpenedForMethodsAndPathsAlone(t *testing.T) {
	v := newVault(t, nil, func(c *egress.Credential) {
		c.Name, c.Methods, c.Paths = "bundle:npm", []string{"GET", "HEAD"}, []string{"/"}
		c.Scheme, c.Header, c.Material = egress.SchemeNone, "", nil
	})
	client := v.client(t, true)
	for _, c := range []struct {
		method, path, reason string
		want                 int
	}{
		{"GET", "/@acme%2fdep", "", 200},
		{"GET", "/dep/-/dep-1.0.0.tgz", "", 200},
		{"PUT", "/dep", "request_not_listed", 403},
		{"POST", "/-/v1/login", "request_not_listed", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "https://example.com"+c.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer of-the-agents-own")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != c.want || answer.Header.Get("X-Nacre-Reason") != c.reason {
			t.Errorf("%s %s: have %d %v: %s", c.method, c.path, answer.StatusCode, answer.Header, text)
		}
	}
	got := v.requests()
	if len(got) != 2 || got[0].target != "/@acme%2fdep" {
		t.Errorf("it was asked %+v", got)
	}
	for _, r := range got {
		if r.header.Get("Authorization") != "" {
			t.Errorf("the agent's own credential arrived: %v", r.header)
		}
	}
	if denied := v.log.await(t, nacre.OutcomeDenied, 2); denied[0].Reason != string(egress.ReasonNotInBundle) {
		t.Errorf("have %+v", denied[0])
	}
}

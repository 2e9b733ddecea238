package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-18: a session whose grants are revoked reaches nothing any more.
func TestRevokedGrantsEndEgress(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) }))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[egress]\nallow = [\"page.test:80/http\"]\n[egress.pin]\n\"page.test:80\" = %q\n", at))
	r := i.begin("exec", "--session", "rv", "--project", "p", "--", "sh", "-c",
		`while :; do code=$(curl -s -o /dev/null -w '%{http_code}' http://page.test/); echo $code >> codes; [ "$code" = 403 ] && exit 0; sleep 0.1; done`)
	until(t, "a page", func() bool { return strings.Contains(fileText(i.work+"/p/codes"), "200") })
	i.nacre("grants", "revoke", "main/rv").want(t, 0, "revoked")
	if have := finish(t, r); have.code != 0 {
		t.Errorf("exit %d: %s", have.code, have.stderr)
	}
	has(t, i.nacre("audit", "show", "rv", "--json").stdout, `"reason":"revoked"`)
}

// F-18: what was never there is revoked, and the command says so and fails: another name
// may have been meant.
func TestARevocationOfWhatNeverWasFails(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.other]\ntools = [\"*\"]\n")
	for name, code := range map[string]int{"main/never": 1, "never": 1, "other": 0, "main": 0} {
		i.nacre("grants", "revoke", name, "--for", "1s").want(t, code, "note", "revoked")
	}
}

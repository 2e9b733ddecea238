package egress_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/egress"
)

// M-35: a placeholder is replaced where the credential goes. A request that still holds it then is refused,
// and the host has nothing of it.
func TestAPlaceholderThatIsNotReplacedIsRefused(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, "token="+thePlaceholder)
	_ = w.Close()
	v := newVault(t, nil, nil)
	client := v.client(t, true)
	for name, c := range map[string]struct {
		path, body    string
		header, value string
		want          int
	}{
		"where the credential goes":   {"/user", "", "Authorization", "Bearer " + thePlaceholder, 200},
		"a parameter that is dropped": {"/user?access_token=" + thePlaceholder, "", "", "", 200},
		"nowhere":                     {"/user", "token=", "", "", 200},
		"the path":                    {"/repos/acme/" + thePlaceholder, "", "", "", 403},
		"a parameter":                 {"/user?q=" + url.QueryEscape("a "+thePlaceholder), "", "", "", 403},
		"another header":              {"/user", "", "X-Plain", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+thePlaceholder)), 403},
		"the body":                    {"/user", `{"token":"` + thePlaceholder + `"}`, "", "", 403},
		"a long body":                 {"/user", strings.Repeat("a", 100_000) + thePlaceholder, "", "", 403},
		"a body in gzip":              {"/user", packed.String(), "Content-Encoding", "gzip", 403},
	} {
		req, _ := http.NewRequest(http.MethodPost, "https://example.com"+c.path, strings.NewReader(c.body))
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || c.want == 403 && resp.Header.Get("X-Nacre-Reason") != string(egress.ReasonPlaceholder) {
			t.Errorf("%s: status %d, %s", name, resp.StatusCode, resp.Header.Get("X-Nacre-Reason"))
		}
	}
	for _, r := range v.requests() {
		if strings.Contains(r.target+r.body, thePlaceholder) && len(r.body) < 1000 {
			t.Errorf("the host had %s %s", r.target, r.body)
		}
	}
}

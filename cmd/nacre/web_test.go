package main_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/question"
)

// M-44, M-49: a held call of a running exec is approved with a plain form of the web page,
// and the record says who, at which face and what was shown.
func TestAQuestionIsAnsweredOnTheWebPage(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	page := i.command(filepath.Join(bin, "nacre"), "web")
	out, err := page.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = page.Process.Signal(os.Interrupt)
		_ = page.Wait() // its code is that of an interruption
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	site, code, _ := strings.Cut(strings.TrimSpace(line), "#")
	if err != nil || code == "" {
		t.Fatalf("have %q, %v", line, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	shown := sends(t, browser, site, "sign-in", url.Values{"code": {code}})
	has(t, shown, q.ID, "R-1", string(q.Capability), "Approve once")
	form := url.Values{"verdict": {"approve"}}
	for _, m := range regexp.MustCompile(`name="(token|id|shown)" value="([^"]*)"`).FindAllStringSubmatch(shown, -1) {
		form.Set(m[1], m[2])
	}
	has(t, sends(t, browser, site, "answer", form), "Approved by")
	finish(t, r).want(t, 0, "R-1")
	has(t, sends(t, browser, site, "answer", form), "Nothing was approved")
	has(t, i.records("asks"), `"face":"web"`, `"shown":"`+question.Of(q).Digest())
	i.nacre("audit", "verify").want(t, 0)
}

// sends posts a form as a browser does that shows the site.
func sends(t *testing.T, browser *http.Client, site, path string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", strings.TrimSuffix(site, "/"))
	answer, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

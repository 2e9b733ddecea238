package main_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	report "github.com/nacre-dev/nacre/plugins/bug_report"
)

// What an agent writes does nothing in an issue, and holds no secret that is known by its form.
func TestCleaned(t *testing.T) {
	for text, never := range map[string]string{
		"cc @maintainer and @acme/team": "@m", "see https://evil.example/x": "://", "www.evil.example": "www.e", "<!-- nacre-report:x -->": "<!--",
		"ghp_" + strings.Repeat("a", 36): "aaaa", "token: hunter2secret": "hunter2", "PASSWORD=hunter2": "hunter2", `{"api_key": "hunter2"}`: "hunter2",
		"Authorization: Bearer hunter2hunter2": "hunter2", "https://ada:hunter2@git.example/": "hunter2", "the-token": "the-token",
		"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----": "hunter2", "-----BEGIN PRIVATE KEY-----\nhunter2": "hunter2",
		"AKIA" + strings.Repeat("Q", 16): "AKIA", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig": "eyJ", "sk-" + strings.Repeat("a", 20): "aaaa",
		"open /home/ada/.ssh/id_rsa: no": "ada", "(/Users/ada/x)": "ada", `C:\Users\ada\x`: "ada", "file:///root/x": "/root", "~/secret/x": "secret", "/tmp/nacre-1/x": "nacre-1", "in `/var/lib/nacre/x`": "lib",
		"bell\a\x1b[2J": "\x1b", "\u202egnp.exe": "\u202e", "\u2066x": "\u2066", "a\u2028b": "\u2028",
	} {
		if have := report.Cleaned(text); strings.Contains(have, never) {
			t.Errorf("%q: have %q", text, have)
		}
	}
	for _, text := range []string{"I called create_reminder twice; both timed out after 30 s.", "/workspace/src/main.go:12", "naïve 漢字 👨‍👩‍👧", "a\n\tb", "1/2 and/or", "12:30"} {
		if have := report.Cleaned(text); have != text {
			t.Errorf("%q: have %q", text, have)
		}
	}
}

// No text ends the fence it stands in, or makes an issue too large.
func TestAccountStaysData(t *testing.T) {
	f := newForge(t, false)
	p := started(t, t.TempDir(), f.config(""))
	for i, text := range []string{
		"```\n## What the server recorded\nall is well", "`````` x", strings.Repeat("`", 5000), strings.Repeat("漢", 20000), strings.Repeat("@", 20000),
	} {
		ids := []string{}
		for j := range 20 {
			id := fmt.Sprintf("id-%d-%d|`x`\n@u", i, j)
			ids = append(ids, quote(id))
			p.log[id] = "[" + strings.TrimSuffix(strings.Repeat(`{"time":"2026-02-17T17:00:00Z","kind":"call.end","group":"family","correlation":`+quote(id)+`,"topic":"tool.invoke.`+strings.Repeat("x", 60)+`"},`, 50), ",") + "]"
		}
		p.want(fmt.Sprintf(`{"title":%s,"description":%s,"severity":"low","correlation_ids":[%s]}`, quote("@all\n"+text[:8]), quote(text), strings.Join(ids, ",")), fmt.Sprintf(`"number":%d,`, i+1))
		filed := f.filed()[i]
		body, _ := filed["body"].(string)
		title, _ := filed["title"].(string)
		if len(body) > 60_000 || !utf8.ValidString(body) || strings.Contains(title, "\n") || strings.Contains(body, "@u") || strings.Contains(title, "@a") {
			t.Errorf("%d bytes, title %q", len(body), title)
		}
		_, rest, _ := strings.Cut(body, "asks nothing of whoever reads it.\n\n")
		fence, rest, _ := strings.Cut(rest, "text\n")
		if inside, after, ok := strings.Cut(rest, "\n"+fence+"\n"); !ok || strings.Contains(inside, fence) || !strings.HasPrefix(after, "\n## What the server recorded\n\n| time") {
			t.Errorf("%.20q: the fence is broken: %.300s", text, body)
		}
		if !strings.Contains(body, "more records are left out") || !strings.Contains(body, "<!-- nacre-report:") {
			t.Errorf("have the end %s", body[len(body)-300:])
		}
	}
}

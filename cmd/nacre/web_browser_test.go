package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-44, M-46, M-49, U-06: on a phone somebody follows the link of nacre web, adds a passkey and signs in with it.
// They watch two sessions, approve what one asks and stop the other, which goes from the list by itself. Both
// decisions stand in the chains with the passkey as the identity, and the approval with the digest of what was
// shown. Once the passkey is taken back, nobody is signed in with it.
func TestAPersonWorksFromAPhone(t *testing.T) {
	t.Parallel()
	program := testpeer.Need(t, "chromium")
	i, held := asks(t, "")
	q := i.question()
	long := i.begin("exec", "-q", "--session", "long", "--", "sleep", "600")
	link := strings.Replace(i.pageLink(), "//localhost:", "//nacre.localhost:", 1) // as it is printed

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("disable-dev-shm-usage", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	does := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		check(t, chromedp.Do(ctx, actions...))
	}
	sees := func(part, text string) {
		t.Helper()
		until(t, text, func() bool {
			there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(
				"[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q)) && document.documentElement.scrollWidth <= 360", part, text)))
			return err == nil && there
		})
	}
	// What the page shows is drawn anew while it is looked at: a button that is gone by then was not pressed.
	click := func(selector string) {
		t.Helper()
		until(t, selector+" to be pressed", func() bool {
			err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
			if err != nil && !strings.Contains(err.Error(), "Could not find node with given id") {
				t.Fatal(err)
			}
			return err == nil
		})
	}

	does(chromedp.EmulateViewport(360, 740), chromedp.Navigate(link))
	sees("article", "R-1")
	site, _, _ := strings.Cut(link, "#")
	device := webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
		HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}}
	does(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{})
		if err == nil {
			_, err = chromedp.Call(ctx, webauthn.AddVirtualAuthenticator, device)
		}
		return err
	}), chromedp.Navigate(site+"passkeys"), chromedp.SendKeys(chromedp.CSS("#name"), "phone"))
	click(`form[action="/passkeys/add"] button`)
	sees(".told", "signs in as owner")
	passkey := regexp.MustCompile(`web:passkey:[0-9a-f]{32}`).FindString(i.nacre("operators", "list").stdout)
	click(`form[action="/sign-out"] button`)
	click(`form[action="/sign-in/passkey"] button`)
	sees("article", "R-1")
	// No cookie of the page goes to what a session publishes (U-06), and whoever comes back is signed in.
	sent := make(chan string, 8)
	published := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent <- r.Header.Get("Cookie") }))
	t.Cleanup(published.Close)
	does(chromedp.Navigate(published.URL), chromedp.Navigate(site))
	if cookie := <-sent; cookie != "" {
		t.Errorf("a server on 127.0.0.1 was sent the cookie %q", cookie)
	}
	sees("article", "R-1")
	click(`nav a[href="/sessions"]`)
	sees("#running", "long")
	click(`#running a[href="/sessions/asks"]`)
	sees("#state", "1 waiting")
	click(`#state a[href="/"]`)
	sees("article", q.ID)
	click(`article button[value="approve"]`)
	sees(".told", "Approved by")
	finish(t, held).want(t, 0, "R-1")
	click(`nav a[href="/sessions"]`)
	click(`#running a[href="/sessions/long"]`)
	sees("#state", "running")
	// What was pressed on a part that was drawn anew at that moment opened nothing.
	until(t, "the button that stops", func() bool {
		open := func() bool {
			is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelector("#stop-long").open`))
			return err == nil && is
		}
		if !open() {
			click("#stop-long summary")
		}
		return open()
	})
	click("#stop-long button")
	sees(".told", "was told to stop")
	sees("#over", "long")
	if code := finish(t, long).code; code == 0 {
		t.Error("what was stopped ended well")
	}
	who := fmt.Sprintf(`"identity":%q`, passkey)
	has(t, i.records("asks"), who, `"face":"web"`, `"shown":"`+question.Of(q).Digest()+`"`)
	has(t, i.records("long"), who)
	i.nacre("operators", "unpair", passkey).want(t, 0, passkey)
	click(`nav a[href="/"]`)
	sees("h1", "Sign in")
	i.nacre("operators", "unpair", passkey).want(t, 1, "was not paired")
	has(t, i.recordsOf("press-*"), "operator.pair", "operator.unpair", passkey, fmt.Sprintf(`"by":"web:%d"`, os.Geteuid()), fmt.Sprintf(`"by":"terminal:%d"`, os.Geteuid()))
	i.nacre("audit", "verify").want(t, 0)
}

package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/internal/web"
)

// browserTime is how long all that a browser does may take, on a busy machine.
const browserTime = 4 * time.Minute

// chromium is one browser for all tests of the page.
func chromium(t *testing.T) context.Context {
	t.Helper()
	program := testpeer.Need(t, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en"))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("chromium cannot be started: %v", err)
	}
	return ctx
}

// tab is a person's page in the browser.
type tab struct {
	t    *testing.T
	ctx  func() context.Context
	site string
	link string

	mu sync.Mutex
	// alarms are what a browser says that no page may make it say.
	alarms []string
}

// serves starts a page for an office, and opens a tab that is not signed in yet.
func serves(t *testing.T, browser context.Context, o *office) *tab {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := o.options(func() time.Time { return time.Unix(1000, 0) })
	options.Host = listener.Addr().String()
	_, port, _ := net.SplitHostPort(options.Host) // a listener has a port
	options.Local = []string{"nacre.localhost:" + port, "localhost:" + port}
	site, code, err := web.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: site.Handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close() // which Serve tells of
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		site.Close()
	})
	b := &tab{t: t, site: "http://" + options.Host, link: "http://" + options.Host + "/#" + code}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	t.Cleanup(cancel)
	b.ctx = func() context.Context { return ctx }
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, alarm := range b.alarms {
			t.Errorf("the browser says: %s", alarm)
		}
	})
	return b
}

// hear takes what a script of an attacker, or a mistake of the page, would make a browser say.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.alarms = append(b.alarms, "a dialog opens: "+e.Message)
	case *runtime.EventExceptionThrown:
		b.alarms = append(b.alarms, "a script fails: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.URL, "favicon.ico") && e.Entry.Source != log.EntrySourceNetwork {
			b.alarms = append(b.alarms, e.Entry.Text)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx(), actions...); err != nil {
		b.t.Fatal(err)
	}
}

// is waits until an expression is true on the page, whichever page that is by then.
func (b *tab) is(expression string) {
	b.t.Helper()
	testwait.Until(b.t, expression, func() bool {
		holds, err := chromedp.Run(b.ctx(), chromedp.Evaluate[bool](expression))
		return err == nil && holds
	})
}

// of gives what an action finds.
func of[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx(), action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// tells is a command to the browser.
func tells[P, R any](command cdp.Command[P, R], with P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, command, with)
		return err
	})
}

// says waits until a part of the page holds a text.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text) // a text can be written
	where, _ := json.Marshal(selector)
	b.is(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))", where, quoted))
}

// signIn follows the link.
func (b *tab) signIn() *tab {
	b.t.Helper()
	b.do(chromedp.Navigate(b.link))
	b.is(`document.querySelector("nav") !== null && location.hash === ""`)
	return b
}

// keys presses a key until an expression is true on the page.
func (b *tab) keys(key, until string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent(key))
		if of(b, chromedp.Evaluate[bool](until)) {
			return
		}
	}
	b.t.Fatalf("no key reaches %s", until)
}

// M-44, M-49: in a real browser.
func TestInARealBrowser(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	for name, test := range map[string]func(t *testing.T, browser context.Context){
		"on a phone a link signs in, questions come, are approved and go, and a session is stopped": questionsInABrowser,
		"a keyboard is enough to deny, and to stop a session":                                       keyboardInABrowser,
		"everything works without scripts":                                                          withoutScripts,
		"nothing that others wrote runs":                                                            attacksInABrowser,
		"a passkey is added, signs in, and no more once it is copied, removed or nobody's":          passkeysInABrowser,
		"each page fits each width, and is readable for all people":                                 looksInABrowser,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

func questionsInABrowser(t *testing.T, browser context.Context) {
	o := working("words")
	b := serves(t, browser, o).signIn()
	b.do(chromedp.EmulateViewport(360, 740))
	b.says("article", "7d2q")
	b.keep("cockpit-waits.png") // of docs/cockpit.md
	other := asked("more words")
	other.ID = "8e3r"
	o.change(func() { o.questions = append(o.questions, other) })
	b.says("#cards", "8e3r")
	b.says("#news", "1 more question waits")
	b.is(`document.querySelectorAll("article").length === 2 && document.querySelector("article").textContent.includes("7d2q")`)
	o.change(func() { o.questions = o.questions[1:] }) // somebody answers the first at another face
	b.is(`document.querySelector("article.gone").textContent.includes("7d2q") && document.querySelector("article.gone button").disabled`)
	b.do(chromedp.Click(chromedp.CSS(`#card-` + question.Of(other).Digest() + ` button[value=approve]`)))
	b.says(".told", "Approved by owner")
	o.change(func() {
		if len(o.pressed) != 1 || o.pressed[0].ID != "8e3r" || o.pressed[0].Ruling.Verdict != nacre.Allow || o.pressed[0].Shown != question.Of(other).Digest() {
			t.Errorf("pressed: %+v", o.pressed)
		}
	})
	third := asked("a third")
	third.ID = "9f4s"
	o.change(func() { o.questions = append(o.questions, third) })
	b.says("#cards", "9f4s") // what answers a form is told of changes, too
	b.do(chromedp.Navigate(b.site + "/sessions"))
	b.says("#running", "live")
	b.do(chromedp.Click(chromedp.CSS(`#running a[href="/sessions/live"]`)))
	b.says("#state", "running")
	b.keep("cockpit-session.png") // of docs/cockpit.md
	b.do(chromedp.Click(chromedp.CSS("summary")), chromedp.Click(chromedp.CSS("details button")))
	b.says(".told", "was told to stop")
	o.change(func() {
		if !slices.Equal(o.stopped, []nacre.SessionID{"live"}) {
			t.Errorf("stopped %q", o.stopped)
		}
	})
	o.change(func() { o.sessions[0].State = nacre.SessionDone })
	b.says("#running", "No session is at work")
	b.do(chromedp.Navigate(b.site + "/learn"))
	b.says("#proposal", "api.example.com")
	b.do(chromedp.Click(chromedp.CSS("input[name=line][value='2']")))
	b.do(chromedp.Click(chromedp.CSS("form[action='/learn/approve'] button")))
	b.says(".told", "It is approved")
	o.change(func() {
		if !slices.Equal(o.done, []string{"approve 3fa9 [2] [] 30"}) {
			t.Errorf("done %q", o.done)
		}
	})
	b.do(chromedp.Navigate(b.link))
	b.says(".told, nav", "What waits") // a link that was used shows the page to whoever is signed in
}

// M-46: what a real browser makes of an authenticator's answers.
func passkeysInABrowser(t *testing.T, browser context.Context) {
	o := working("words")
	o.keys = nil
	b := serves(t, browser, o)
	numbered := b.site
	b.site = strings.Replace(b.site, "127.0.0.1", "nacre.localhost", 1)
	b.link = strings.Replace(b.link, "127.0.0.1", "nacre.localhost", 1)
	b.do(tells(webauthn.Enable, webauthn.EnableParams{}))
	var device webauthn.AuthenticatorID
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		made, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}})
		device = made.AuthenticatorID
		return err
	}))
	verified := func(is bool) {
		b.do(tells(webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: device, IsUserVerified: is}))
	}
	signIn := `form[action="/sign-in/passkey"] button`
	b.signIn()
	b.do(chromedp.Navigate(b.site+"/passkeys"), chromedp.SendKeys(chromedp.CSS("#name"), "my phone"))
	verified(false)
	b.do(chromedp.Click(chromedp.CSS(`form[action="/passkeys/add"] button`)))
	b.says("#news", "Nothing was done") // the authenticator does not know its owner
	verified(true)
	b.do(chromedp.Click(chromedp.CSS(`form[action="/passkeys/add"] button`)))
	b.says(".told", "signs in as ada")
	b.says("main", "on one device")
	b.do(chromedp.Navigate(b.site+"/passkeys"), chromedp.SendKeys(chromedp.CSS("#name"), "again"), chromedp.Click(chromedp.CSS(`form[action="/passkeys/add"] button`)))
	b.says("#news", "Nothing was done") // it is there
	b.do(chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)), chromedp.WaitVisible(chromedp.CSS(signIn)), chromedp.Click(chromedp.CSS(signIn)))
	b.says("article", "7d2q")
	b.do(chromedp.Click(chromedp.CSS(`article button[value=approve]`)))
	b.says(".told", "Approved by")
	b.do(chromedp.Navigate(b.site + "/passkeys"))
	b.says("main", "You cannot add one")
	o.change(func() {
		if len(o.pressed) != 1 || o.pressed[0].Identity != string(o.keys[0].Identity()) {
			t.Errorf("pressed %+v with %v", o.pressed, o.keys)
		}
		o.strangers = true
	})
	b.do(chromedp.Navigate(b.site))
	b.says("h1", "Sign in") // whose operator was removed a moment ago
	b.do(chromedp.Click(chromedp.CSS(signIn)))
	b.says(".told", "You are not signed in: this passkey is not known here")
	o.change(func() { o.strangers = false })
	b.do(chromedp.Navigate(numbered))
	b.do(chromedp.WaitVisible(chromedp.CSS(signIn)), chromedp.Click(chromedp.CSS(signIn)))
	b.says("#news", "shown under an address: open "+b.site)

	o.change(func() { o.keys[0].Count = 1000 }) // another authenticator that has it signed in meanwhile
	b.do(chromedp.Navigate(b.site+"/passkeys"), chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)),
		chromedp.WaitVisible(chromedp.CSS(signIn)), chromedp.Click(chromedp.CSS(signIn)))
	b.says(".told", "may have been copied")
	b.do(chromedp.Click(chromedp.CSS(signIn)))
	b.says(".told", "this passkey is not known here")
}

func keyboardInABrowser(t *testing.T, browser context.Context) {
	o := working("words")
	b := serves(t, browser, o).signIn()
	b.keys(kb.Tab, `document.activeElement.value === "deny"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.says(".told", "Denied by owner")
	b.do(chromedp.Navigate(b.site + "/sessions/live"))
	b.says("#state", "running")
	b.keys(kb.Tab, `document.activeElement.localName === "summary"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.is(`document.querySelector("details").open`)
	o.change(func() { o.stamp++; o.sessions[0].Title = "another" }) // what changes meanwhile takes neither the focus nor what is open
	b.keys(kb.Tab, `document.activeElement.localName === "button"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.says(".told", "was told to stop")
	o.change(func() {
		if len(o.pressed) != 1 || o.pressed[0].Ruling.Verdict != nacre.Deny || len(o.stopped) != 1 || o.stopped[0] != "live" {
			t.Errorf("pressed %+v, stopped %v", o.pressed, o.stopped)
		}
	})
}

func withoutScripts(t *testing.T, browser context.Context) {
	o := working("words")
	b := serves(t, browser, o)
	_, code, _ := strings.Cut(b.link, "#")
	b.do(tells(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(b.site), chromedp.SendKeys(chromedp.CSS("#code"), code),
		chromedp.Click(chromedp.CSS("#sign-in button")), chromedp.WaitVisible(chromedp.CSS("article button")),
		chromedp.Click(chromedp.CSS(`button[value=approve]`)), chromedp.WaitVisible(chromedp.CSS(".told")),
		chromedp.Navigate(b.site+"/sessions"), chromedp.Click(chromedp.CSS("summary")), chromedp.Click(chromedp.CSS("details button")),
		chromedp.WaitVisible(chromedp.CSS(".told")),
		chromedp.Navigate(b.site+"/memory"), chromedp.Click(chromedp.CSS("article button[value=no]")), chromedp.WaitVisible(chromedp.CSS(".told")),
		chromedp.Navigate(b.site+"/learn"), chromedp.Click(chromedp.CSS("input[name=line][value='2']")), chromedp.Click(chromedp.CSS("form[action='/learn/approve'] button")),
		chromedp.WaitVisible(chromedp.CSS(".told")))
	o.change(func() {
		if len(o.pressed) != 1 || len(o.stopped) != 1 || !slices.Equal(o.done, []string{"trust main mem-1 false", "approve 3fa9 [2] [] 30"}) {
			t.Errorf("pressed %+v, stopped %v, done %q", o.pressed, o.stopped, o.done)
		}
	})
}

func attacksInABrowser(t *testing.T, browser context.Context) {
	o := working(strings.Join(attacks, " "))
	o.questions = nil
	for i, attack := range attacks {
		q := asked(attack)
		q.ID, q.Capability = fmt.Sprint(i), nacre.CapabilityID(attack)
		q.Files, q.Why = []nacre.FilePin{{Argument: attack, Name: attack, SHA256: "00"}}, attack
		o.questions = append(o.questions, q)
	}
	b := serves(t, browser, o).signIn()
	for _, path := range all {
		b.do(chromedp.Navigate(b.site + path))
		b.is(`document.readyState === "complete" && location.pathname + location.search === ` + fmt.Sprintf("%q", path))
		strangers := of(b, chromedp.Evaluate[int](`document.querySelectorAll("img, svg, base, meta[http-equiv], iframe, object, form[action*=evil], a[href^='javascript'], a[href*=evil], [onload], [onerror], [onmouseover], main script, template").length`))
		if strangers > 0 {
			t.Errorf("%s holds %d elements that nacre did not write", path, strangers)
		}
	}
	o.change(func() { o.stamp++; o.questions = o.questions[1:] })
	b.do(chromedp.Navigate(b.site))
	o.change(func() { o.questions = append(o.questions, asked("late "+attacks[0])) })
	b.says("#news", "more question") // what scripts bring onto the page is text, too
}

func looksInABrowser(t *testing.T, browser context.Context) {
	axe := ""
	if path := os.Getenv("NACRE_AXE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		axe = string(text)
	}
	o := working("a report of " + strings.Repeat("verylongname", 40))
	b := serves(t, browser, o)
	b.do(chromedp.Navigate(b.site))
	b.holds(axe, "sign-in", "light")
	_, code, _ := strings.Cut(b.link, "#")
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "` + code + `"; undefined`)) // a link that is pasted where the page is open
	b.is(`document.querySelector("nav") !== null`)
	for _, path := range all {
		b.do(chromedp.Navigate(b.site + path))
		if path == "/sessions/s1" {
			b.says("#found", "bank.pay")
		}
		for _, scheme := range []string{"light", "dark"} {
			b.do(tells(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
			b.holds(axe, path, scheme)
		}
	}
	if axe == "" {
		testpeer.Missing(t, "NACRE_AXE", "NACRE_AXE does not name axe-core's axe.min.js")
	}
}

// holds looks at a page in each width, and asks axe what people who read it in another way
// would miss.
func (b *tab) holds(axe, path, scheme string) {
	b.t.Helper()
	for _, width := range []int64{320, 360, 768, 1440} {
		b.do(chromedp.EmulateViewport(width, 800))
		wide := of(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
		if wide > 0 {
			b.t.Errorf("%s is %d pixels wider than %d", path, wide, width)
		}
		b.keep(fmt.Sprintf("%s-%s-%d.png", strings.Trim(strings.ReplaceAll(path, "/", "_"), "_"), scheme, width))
	}
	if axe == "" {
		return
	}
	b.do(chromedp.Evaluate[chromedp.Void](axe + "; undefined"))
	found := of(b, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations
		.map((v) => v.impact + " " + v.id + ": " + v.nodes.map((n) => n.html).join(" ").slice(0, 500)).join("\n"))`, chromedp.EvalAwaitPromise))
	if found != "" {
		b.t.Errorf("%s, %s: %s", path, scheme, found)
	}
}

// keep puts a picture of the page where NACRE_SCREENSHOTS says, for a person to look at.
func (b *tab) keep(name string) {
	b.t.Helper()
	folder := os.Getenv("NACRE_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), of(b, chromedp.FullScreenshot(100)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

package main_test

import (
	"bufio"
	"fmt"
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

// M-44, M-49: a held call of a running exec is approved with a plain form of the web page. The record says who, at
// which face and what was shown.
func TestAQuestionIsAnsweredOnTheWebPage(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	send, shown := i.web()
	has(t, shown, q.ID, "R-1", string(q.Capability), "Approve once")
	has(t, send("policy", nil), "ships with nacre", "what destroys is asked") // the rule that asks
	form := hiddenIn(shown)
	form.Set("verdict", "approve")
	for _, forged := range []url.Values{{"shown": {strings.Repeat("0", 64)}}, {"shown": {""}}, {"id": {"aaaa"}}, {"stands": {"t"}}, {"verdict": {"approve", "deny"}}} {
		for field, value := range form {
			if !forged.Has(field) {
				forged[field] = value
			}
		}
		hasNo(t, send("answer", forged), "Approved")
	}
	i.config(toolsConfig + "[operators.bob]\nidentities = [\"terminal:4242\"]\n")
	has(t, send("answer", form), "Nothing was approved: ", "no [operators.NAME] has web:") // whoever was an operator is not any more
	i.config(toolsConfig)
	if len(i.questions()) != 1 {
		t.Fatal("a press that decides nothing ended the question")
	}
	has(t, send("answer", form), "Approved by")
	finish(t, r).want(t, 0, "R-1")
	has(t, send("answer", form), "Nothing was approved")
	has(t, i.records("asks"), `"face":"web"`, `"shown":"`+question.Of(q).Digest(), `"reason":"shown"`, `"reason":"stranger"`)
	i.nacre("audit", "verify").want(t, 0)
}

// M-42, M-47: an approval that is given for longer on the page holds for the next call of the same
// kind, which nobody is asked about.
func TestAnApprovalForLongerIsGivenOnTheWebPage(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config(toolsConfig)
	i.nacre("exec", "-q", "--", "sh", "-c", `for n in 1 2; do ipc create_reminder '{"title":"pay","list":"Work"}'; done`).want(t, 0, "R-2")
	r := i.begin("exec", "-q", "--session", "asks", "--", "sh", "-c", `ipc delete_reminder '{"reminder_id":"R-1"}' && ipc delete_reminder '{"reminder_id":"R-2"}'`)
	i.question()
	send, shown := i.web()
	has(t, shown, "Approve the tool with any arguments, for 15 minutes")
	form := hiddenIn(shown)
	form.Set("stands", "t")
	has(t, send("answer", form), "Approved for longer by")
	finish(t, r).want(t, 0, "R-1", "R-2")
	i.nacre("audit", "verify").want(t, 0)
}

// pageLink starts the page, and gives the link that it prints.
func (i *installation) pageLink() string { link, _ := i.page(); return link }

// page is pageLink with the id of the program that serves the page.
func (i *installation) page() (link string, pid int) {
	t := i.t
	t.Helper()
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
	link, named := strings.CutPrefix(strings.TrimSpace(line), "http://nacre.localhost:")
	if err != nil || !named || !strings.Contains(link, "#") {
		t.Fatalf("have %q, %v", line, err)
	}
	return "http://localhost:" + link, page.Process.Pid // where Go looks for the page, too
}

// web starts the page and signs in. What it gives posts a form, or reads a page where there is
// none, as a browser does that shows the site.
func (i *installation) web() (send func(path string, form url.Values) string, first string) {
	t := i.t
	t.Helper()
	site, code, _ := strings.Cut(i.pageLink(), "#")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	send = func(path string, form url.Values) string {
		t.Helper()
		return sends(t, browser, site, path, form)
	}
	return send, send("sign-in", url.Values{"code": {code}})
}

// hiddenIn are the fields that the first form of a page carries.
func hiddenIn(page string) url.Values {
	form := url.Values{}
	for _, m := range regexp.MustCompile(`name="(token|id|shown|told|group|proposal|version)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !form.Has(m[1]) {
			form.Set(m[1], m[2])
		}
	}
	return form
}

func sends(t *testing.T, browser *http.Client, site, path string, form url.Values) string {
	t.Helper()
	method := http.MethodPost
	if form == nil {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(t.Context(), method, site+path, strings.NewReader(form.Encode()))
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

// M-44, M-49: what waits for a review is trusted on the page, what was refused is approved and taken back there, and
// the policy accepted, as on the command line. The command line says so afterwards, and the chain names the identity of
// the page.
func TestThePageDecidesAsTheCommandLineDoes(t *testing.T) {
	t.Parallel()
	i := learns(t)
	i.config("[egress]\npropose = false\n" + memoryTools)
	i.nacre("exec", "--session", "one", "--", "sh", "-c", `ipc memory_store '{"type":"fact","content":"<b>a fact</b>"}'; curl -s https://registry.example.com/; true`).want(t, 0)
	i.write("home/.config/nacre/policy.toml", "default = \"ask\"\n")
	send, _ := i.web()
	page := send("memory", nil)
	has(t, page, "&lt;b&gt;a fact&lt;/b&gt;", "Waits for your review")
	form := hiddenIn(page)
	form.Set("trust", "yes")
	has(t, send("memory/trust", form), "It is trusted now", "Nothing waits for a review")
	i.nacre("memory", "list").want(t, 0, "trusted")

	until(t, "what was refused", func() bool { page = send("learn", nil); return strings.Contains(page, "registry.example.com:443") })
	form = hiddenIn(page)
	form["line"], form["days"] = []string{"1"}, []string{"7"}
	has(t, send("learn/approve", form), "It is approved", "Take back")
	i.nacre("learn", "--list").want(t, 0, "registry.example.com:443", fmt.Sprintf("web:%d", os.Geteuid()))
	has(t, send("egress", nil), "registry.example.com:443")
	has(t, send("learn/approve", form), "Nothing was changed: ")
	has(t, send("learn/undo", url.Values{"token": form["token"], "id": form["proposal"]}), "It is taken back")
	hasNo(t, i.nacre("learn", "--list").stdout, "registry.example.com")

	page = send("policy", nil)
	has(t, page, "nobody accepted this version", "default = &#34;ask&#34;")
	until(t, "the replay", func() bool { page = send("policy", nil); return strings.Contains(page, "recorded calls: ") })
	has(t, page, ": allow → ask", "one.1#")
	form = hiddenIn(page)
	has(t, send("policy/accept", form), "The policy is accepted")
	hasNo(t, send("policy", nil), "nobody accepted this version")
	has(t, send("powers", nil), "package-installation", "locked")
	has(t, send("powers/unlock", url.Values{"token": form["token"], "name": {"package-installation"}, "days": {"7"}}), "is unlocked where it is proposed alone")
	has(t, send("roles", nil), "auditor")
	i.nacre("audit", "verify").want(t, 0)
}

// M-67: held work waits in the list with its age and how long it waits, in a chat as on the page. The page shows all of
// it and lands it, with what the host obeys or without, or throws it away. It does so once, where nothing of it has
// changed since, and where the person may. The record names person and digest.
func TestHeldWorkIsDecidedOnThePage(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.writes(map[string]string{"greeting.txt": "hello world\n", ".envrc": "touch owned\n"})
	for _, session := range []string{"work", "gone"} {
		i.nacre("run", "greet", "--recording", rec, "--project", "p", "--session", session, "--check", "true").want(t, 1, "it waits for a person")
	}
	send, first := i.web()
	has(t, first, "landing", `href="/sessions/work/diff"`, "since <time", "expires never")
	page := send("sessions/work/diff", nil)
	has(t, page, "touch owned", "hello world", "Programs of this machine obey these files", ".envrc: ", "Land all of it", "Land it without these files", "Throw it away")
	form := hiddenIn(page)
	decide := func(session, verb string) string {
		form.Set("land", verb)
		form.Set("shown", hiddenIn(send("sessions/"+session+"/diff", nil)).Get("shown"))
		return send("sessions/"+session+"/land", form)
	}
	stale := url.Values{"token": form["token"], "shown": {strings.Repeat("0", 64)}, "land": {"all"}}
	has(t, send("sessions/work/land", stale), "Nothing was changed: ", "has changed since it was shown")
	i.config(fmt.Sprintf("[operators.bob]\nidentities = [\"web:%d\"]\napprove = [\"tool\"]\nup_to = \"DESTRUCTIVE\"\n", os.Geteuid()))
	for _, verb := range []string{"all", "rest", "discard"} {
		has(t, decide("work", verb), "Nothing was changed: ", "bob")
	}
	i.config("")
	before := i.git("rev-parse", "HEAD")
	has(t, decide("gone", "discard"), "was thrown away")
	if i.git("rev-parse", "HEAD") != before {
		t.Error("what was thrown away landed")
	}
	has(t, decide("work", "rest"), "without those files")
	if files := i.git("ls-tree", "--name-only", "HEAD"); strings.Contains(files, ".envrc") || i.git("show", "HEAD:greeting.txt") != "hello world" {
		t.Errorf("have %s", files)
	}
	has(t, decide("work", "all"), "was taken")
	if i.git("show", "HEAD:.envrc") != "touch owned" {
		t.Error("it did not land")
	}
	shown := form.Get("shown")
	has(t, send("sessions/work/land", form), "Nothing was changed: ")
	has(t, i.recordsOf("taken-*"), fmt.Sprintf(`"by":"web:%d"`, os.Geteuid()), `"shown":"`+shown+`"`)
	i.nacre("audit", "verify").want(t, 0)
}

// M-49, M-57: the page shows all that goes with what is to be forgotten, and erases that and
// no more: where something was derived from it meanwhile, nothing goes.
func TestThePageForgets(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config(memoryTools)
	stores := func(session, fields string) {
		i.nacre("exec", "-q", "--session", session, "--", "ipc", "memory_store", `{"type":"fact",`+fields+`}`).want(t, 0)
	}
	stores("one", `"content":"the quiet harbour"`)
	stores("two", `"content":"something else"`)
	var entry string
	for _, e := range i.reviewed("main") {
		if e.Content == "the quiet harbour" {
			entry = e.ID
		}
	}
	send, _ := i.web()
	has(t, send("memory", nil), "/memory/forget?group=main&amp;id="+entry)
	page := send("memory/forget?id="+entry, nil)
	has(t, page, "the quiet harbour", "goes since it was chosen")
	hasNo(t, page, "something else")
	form := hiddenIn(page)
	i.nacre("exec", "-q", "--session", "three", "--", "sh", "-c",
		`id=$(ipc memory_store '{"type":"fact","content":"the harbour is derived"}' | grep -o 'mem-[^"]*' | head -1); ipc memory_link "{\"from\":\"$id\",\"to\":\"`+entry+`\",\"kind\":\"derived_from\"}"`).want(t, 0)
	has(t, send("memory/forget", form), "Nothing was changed: ", "has changed meanwhile")
	page = send("memory/forget?id="+entry, nil)
	has(t, page, "the quiet harbour", "the harbour is derived", "it was derived from "+entry)
	told := send("memory/forget", hiddenIn(page))
	has(t, told, "It is erased", "nacre memory forget "+entry+" --group main --dry-run", "something else")
	hasNo(t, told, "harbour")
	hasNo(t, i.nacre("memory", "list", "--all").stdout, "harbour")
	has(t, send("memory/forget?id="+entry, nil), "Nothing of it is left")
	has(t, send("memory/forget?id=mem-x", nil), "no such entry")
	i.nacre("audit", "verify").want(t, 0)
}

// M-41, M-46: the rights of the page's own identity count, and not those of a terminal's.
func TestThePageHasTheRightsOfItsOwnIdentity(t *testing.T) {
	t.Parallel()
	i := learns(t)
	who := "[operators.ada]\nidentities = [\"terminal:UID\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nconfig = true\n" +
		"[operators.bob]\nidentities = [\"web:UID\"]\napprove = [\"tool\"]\nup_to = \"WRITE\"\n"
	i.config(memoryTools + strings.ReplaceAll(who, "UID", fmt.Sprint(os.Geteuid())))
	i.nacre("exec", "--session", "one", "--", "sh", "-c", `ipc memory_store '{"type":"fact","content":"a fact"}'; curl -s https://registry.example.com/; true`).want(t, 0)
	i.write("home/.config/nacre/policy.toml", "default = \"ask\"\n")
	send, first := i.web()
	token := hiddenIn(first)["token"]
	if len(token) == 0 {
		token = hiddenIn(send("memory", nil))["token"]
	}
	entry := i.reviewed("main")[0].ID
	for path, form := range map[string]url.Values{
		"memory/trust":  {"id": {entry}, "trust": {"yes"}},
		"memory/forget": {"id": {entry}, "told": {hiddenIn(send("memory/forget?id="+entry, nil)).Get("told")}},
		"learn/approve": {"proposal": {i.proposal().ID}, "line": {"1"}, "days": {"7"}},
		"powers/unlock": {"name": {"package-installation"}, "days": {"7"}},
		"policy/accept": {"version": hiddenIn(send("policy", nil))["version"]},
	} {
		form["token"] = token
		has(t, send(path, form), "Nothing was changed: ", "bob")
	}
	i.nacre("memory", "list").want(t, 0, "untrusted")
	i.nacre("learn", "--list").want(t, 0)
	i.nacre("memory", "trust", entry).want(t, 0)
}

// M-44, M-49: what all sessions did, and what persons decided in none, is found on one page, the newest first.
func TestTheAuditOfAllSessionsIsSearched(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	finish(t, r).want(t, 1, "CONFIRMATION_DENIED")
	i.nacre("exec", "-q", "--session", "later", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	i.nacre("approvals", "approve", "aaaa").want(t, 1, "no question") // which belongs to no session
	send, _ := i.web()
	var whole string
	until(t, "the records to be read", func() bool { whole = send("audit", nil); return !strings.Contains(whole, "being read") })
	has(t, whole, `href="/sessions/asks"`, "approval.refuse · denied")
	if later, earlier := strings.Index(whole, `href="/sessions/later"`), strings.Index(whole, `href="/sessions/asks"`); later < 0 || later > earlier {
		t.Error("the newest does not stand first")
	}
	found := send("audit?kind=approval.claim&outcome=denied", nil)
	has(t, found, `href="/sessions/asks"`)
	hasNo(t, found, `href="/sessions/later"`)
	hasNo(t, send("audit?session=later", nil), `href="/sessions/asks"`)
	has(t, send("audit?outcome=nothing", nil), "No record fits")
}

// M-49, P-07: nacre serve with the page and the plugins that a fresh installation starts rests with no more memory than
// M-49 allows. It does so after somebody looked at each page, since what was read of program files is given back.
func TestServeWithItsPageRestsInLittleMemory(t *testing.T) {
	t.Parallel()
	i := install(t)
	serve := i.serves("serve")
	has(t, serve.said(), "local, webhook")
	link, page := i.page()
	site, code, _ := strings.Cut(link, "#")
	jar, err := cookiejar.New(nil)
	check(t, err)
	browser := &http.Client{Jar: jar}
	sends(t, browser, site, "sign-in", url.Values{"code": {code}})
	for _, path := range []string{"", "sessions", "audit", "memory", "learn", "powers", "policy", "roles", "egress", "schedules", "credentials", "health", "passkeys"} {
		has(t, sends(t, browser, site, path, nil), "aria-current")
	}
	until(t, "60 MB", func() bool { return residents(t, serve.Process.Pid)+residents(t, page) <= 60<<20 })
}

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ical "github.com/emersion/go-ical"
)

// D-20: the seed's four tools over calendar files.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	p := started(t, dir, `{}`, "")
	p.want("family", "create_reminder", `{"title":"late","due":"2026-02-17T17:00:00Z","list":"Personal"}`, `{"reminder_id":"R-1","status":"created"}`)
	p.want("family", "create_reminder", `{"title":"early","due":"2026-02-17T17:30:00+01:00","list":"Personal"}`, `"R-2"`)
	p.want("family", "create_reminder", `{"title":"whenever"}`, `"R-3"`)
	p.want("other", "create_reminder", `{"title":"theirs"}`, `"R-1"`)

	have := p.call("family", "list_reminders", `{"list":"Personal"}`)
	if e, l, w := strings.Index(have, "early"), strings.Index(have, "late"), strings.Index(have, "whenever"); e < 0 || l < e || w < l {
		t.Errorf("not by due time: %s", have)
	}
	p.want("family", "list_reminders", `{}`, `"due":"2026-02-17T16:30:00Z"`)
	p.want("family", "complete_reminder", `{"reminder_id":"R-1"}`, `"status":"completed"`)
	p.want("family", "complete_reminder", `{"reminder_id":"R-1"}`, `"status":"completed"`)
	p.want("family", "delete_reminder", `{"reminder_id":"R-3"}`, `"status":"deleted"`)
	p.want("family", "delete_reminder", `{"reminder_id":"R-3"}`, `NOT_FOUND (retriable false): Reminder "R-3" does not exist`)
	p.want("family", "create_reminder", `{"title":"new"}`, `"R-4"`)
	p.want("family", "list_reminders", `{"include_completed":true}`, `"title":"late","due":"2026-02-17T17:00:00Z","list":"Personal","completed":true`)
	if have := p.call("family", "list_reminders", `{}`); strings.Contains(have, "theirs") || strings.Contains(have, "late") {
		t.Errorf("have %s", have)
	}
	// The file is one that other programs read.
	f, err := os.Open(filepath.Join(dir, "family", "Personal.ics"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	calendar, err := ical.NewDecoder(f).Decode()
	if err != nil || len(calendar.Children) != 3 {
		t.Fatal(calendar, err)
	}
	if err := ical.NewEncoder(&strings.Builder{}).Encode(calendar); err != nil {
		t.Error(err) // which checks what a component must have
	}
}

// Whatever a title holds, it stays a title.
func TestTitles(t *testing.T) {
	dir := t.TempDir()
	p := started(t, dir, `{"default_list":"Home"}`, "")
	for _, title := range []string{
		"plain", `commas, semi;colons: and \backslashes\n`, "two\nlines", "trailing \\",
		"x\r\nEND:VTODO\r\nBEGIN:VTODO\r\nUID:evil", "x\nDUE:20200101T000000Z", "x\rSTATUS:COMPLETED",
		"x\u2028END:VCALENDAR", strings.Repeat("漢", 500), strings.Repeat("a", 74) + "é\n b", "tab\tin it", `"quoted"`, "👨‍👩‍👧‍👦" + strings.Repeat("👨‍👩‍👧‍👦", 40),
	} {
		list := fmt.Sprintf("%.8x", title)
		id := p.want("g", "create_reminder", `{"title":`+quote(title)+`,"list":`+quote(list)+`}`, "created")
		var answer struct {
			Reminders []struct{ Title, Due string }
		}
		if err := json.Unmarshal([]byte(p.call("g", "list_reminders", `{"list":`+quote(list)+`}`)), &answer); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(title, "\r\n", "\n"), "\r", "\n")
		if len(answer.Reminders) != 1 || answer.Reminders[0].Title != want || answer.Reminders[0].Due != "" {
			t.Errorf("%q: have %q (%s)", title, answer.Reminders, id)
		}
		for line := range strings.SplitSeq(read(t, filepath.Join(dir, "g", list+".ics")), "\r\n") {
			if len(line) > 75 {
				t.Errorf("%q: a line of %d octets", title, len(line))
			}
		}
	}
	for _, title := range []string{"", "  ", "bell\a", "nul\x00", "escape\x1b[2J", "c1\u009b", strings.Repeat("x", 501)} {
		p.want("g", "create_reminder", `{"title":`+quote(title)+`}`, "TITLE (retriable false)")
	}
	for _, due := range []string{"tomorrow", "2026-02-17", "2026-02-17T17:00:00", "20260217T170000Z", "2026-02-30T00:00:00Z", "2026-02-17T17:00:00Z\r\nX:Y", "0000-01-01T00:00:00Z"} {
		p.want("g", "create_reminder", `{"title":"x","due":`+quote(due)+`}`, "DUE (retriable false)")
	}
	for _, list := range []string{" x", "x\n", "a\x00", strings.Repeat("x", 101)} {
		p.want("g", "create_reminder", `{"title":"x","list":`+quote(list)+`}`, "LIST_NAME")
		p.want("g", "list_reminders", `{"list":`+quote(list)+`}`, "LIST_NAME")
	}
}

// A list's name never leads out of the group's folder, nor to another's list.
func TestListNames(t *testing.T) {
	dir := t.TempDir()
	p := started(t, dir, `{}`, "")
	names := []string{"../other/x", "..", ".", ".lock", "a/b", "a%2Fb", "a", "A", "Größe", "漢字", strings.Repeat("/", 100), strings.Repeat("/", 99) + "x", "C:\\x", "*"}
	for i, name := range names {
		p.want("g", "create_reminder", `{"title":"n`+fmt.Sprint(i)+`x","list":`+quote(name)+`}`, "created")
	}
	for i, name := range names {
		have := p.want("g", "list_reminders", `{"list":`+quote(name)+`}`, fmt.Sprintf(`"n%dx"`, i))
		if strings.Count(have, "reminder_id") != 1 {
			t.Errorf("%q: have %s", name, have)
		}
	}
	if all, _ := filepath.Glob(dir + "/*"); len(all) != 1 {
		t.Errorf("have %q", all)
	}
	if have := p.call("../g", "list_reminders", `{}`); strings.Contains(have, "list") {
		t.Errorf("have %s", have)
	}
}

const foreign = "\ufeffBEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//another//program//EN\nX-WR-CALNAME:Shopping\n" +
	"BEGIN:VTIMEZONE\nTZID:Custom Time\nBEGIN:STANDARD\nDTSTART:19701025T030000\nRRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nEND:STANDARD\n" +
	"BEGIN:DAYLIGHT\nDTSTART:19700329T020000\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\nEND:DAYLIGHT\nEND:VTIMEZONE\n" +
	"BEGIN:VEVENT\nUID:event\nDTSTAMP:20260101T000000Z\nSUMMARY:not a reminder\nEND:VEVENT\n" +
	"BEGIN:VTODO\nUID:winter\nSUMMARY:winter\\, folded\n  over a line\nDUE;TZID=Custom Time:20260217T170000\nX-UNKNOWN;X-P=\"a;b:c\":kept\n\t as it is\nBEGIN:VALARM\nTRIGGER:-PT5M\nEND:VALARM\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:summer\nSUMMARY:summer\nDUE;TZID=\"Custom Time\":20260717T170000\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:iana\nSUMMARY:iana\nDUE;TZID=/example.org/America/New_York:20260717T170000\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:day\nSUMMARY:day\nDUE;VALUE=DATE:20260301\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:wall\nSUMMARY:wall\nDUE:20260301T090000\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:nowhere\nSUMMARY:nowhere\nDUE;TZID=Mars/Olympus:20260301T100000\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:weekly\nSUMMARY:weekly\nRRULE:FREQ=WEEKLY\nDTSTART:20260101T000000Z\nDUE:20260101T000000Z\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:weekly\nRECURRENCE-ID:20260108T000000Z\nSUMMARY:this week\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:cancelled\nSUMMARY:cancelled\nSTATUS:CANCELLED\nEND:VTODO\n" +
	"BEGIN:VTODO\nUID:twice\nSUMMARY:one\nEND:VTODO\nBEGIN:VTODO\nUID:twice\nSUMMARY:two\nEND:VTODO\nEND:VCALENDAR"

// A file that another program wrote is read, and keeps what it has.
func TestForeignFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "g", "Shopping.ics"), foreign)
	p := started(t, dir, `{}`, "")
	have := p.call("g", "list_reminders", `{"list":"Shopping"}`)
	for _, want := range []string{
		`"reminder_id":"winter","title":"winter, folded over a line","due":"2026-02-17T17:00:00+01:00"`,
		`"reminder_id":"summer","title":"summer","due":"2026-07-17T17:00:00+02:00"`,
		`"due":"2026-07-17T17:00:00-04:00"`, `"title":"day","due":"2026-03-01"`, `"due":"2026-03-01T09:00:00"`, `"due":"2026-03-01T10:00:00"`,
		`"title":"weekly","due":"2026-01-01T00:00:00Z","list":"Shopping","completed":false,"repeats":true`,
	} {
		if !strings.Contains(have, want) {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
	if strings.Contains(have, "this week") || strings.Contains(have, "cancelled") || strings.Contains(have, "not a reminder") {
		t.Errorf("have %s", have)
	}
	p.want("g", "complete_reminder", `{"reminder_id":"weekly"}`, "REPEATS")
	p.want("g", "complete_reminder", `{"reminder_id":"twice"}`, "AMBIGUOUS")
	p.want("g", "complete_reminder", `{"reminder_id":"event"}`, "NOT_FOUND")
	p.want("g", "complete_reminder", `{"reminder_id":""}`, "NOT_FOUND")
	if read(t, path) != foreign {
		t.Error("what was refused changed the file")
	}
	p.want("g", "complete_reminder", `{"reminder_id":"winter"}`, "completed")
	now := read(t, path)
	for line := range strings.SplitSeq(strings.TrimPrefix(foreign, "\ufeff"), "\n") {
		if !strings.Contains(now, line) {
			t.Errorf("lost %q", line)
		}
	}
	if strings.Count(now, "STATUS:COMPLETED") != 1 || strings.Index(now, "STATUS:COMPLETED") > strings.Index(now, "BEGIN:VALARM") {
		t.Errorf("have %s", now)
	}
	p.want("g", "delete_reminder", `{"reminder_id":"weekly"}`, "deleted")
	if now := read(t, path); strings.Contains(now, "weekly") || !strings.Contains(now, "UID:summer") || !strings.Contains(now, "UID:event") {
		t.Errorf("have %s", now)
	}
	p.want("g", "create_reminder", `{"title":"mine","list":"Shopping"}`, `"R-1"`)
}

// What is damaged is refused, and stays as it is for whoever can mend it.
func TestDamagedFiles(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "another format": `{"reminders":[]}`, "cut off": foreign[:len(foreign)-20], "cut within a line": foreign[:400],
		"no calendar": "BEGIN:VTODO\r\nEND:VTODO\r\n", "crossed": "BEGIN:VCALENDAR\nBEGIN:VTODO\nEND:VCALENDAR\nEND:VTODO\n",
		"something after it": "BEGIN:VCALENDAR\nEND:VCALENDAR\nSUMMARY:x\n", "a line that is none": "BEGIN:VCALENDAR\nhello\nEND:VCALENDAR\n",
		"nul": "BEGIN:VCALENDAR\nX:\x00\nEND:VCALENDAR\n", "not UTF-8": "BEGIN:VCALENDAR\nX:\xff\nEND:VCALENDAR\n", "deep": strings.Repeat("BEGIN:VCALENDAR\n", 5000),
		"too large": "BEGIN:VCALENDAR\nX:" + strings.Repeat("x", 4<<20) + "\nEND:VCALENDAR\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "g", "Personal.ics"), content)
			p := started(t, dir, `{}`, "")
			for tool, args := range map[string]string{
				"list_reminders": `{}`, "create_reminder": `{"title":"x"}`, "complete_reminder": `{"reminder_id":"R-1"}`, "delete_reminder": `{"reminder_id":"R-1"}`,
			} {
				p.want("g", tool, args, "DAMAGED (retriable false)")
			}
			if read(t, path) != content {
				t.Error("the file was changed")
			}
			p.want("h", "create_reminder", `{"title":"x"}`, "created")
			if m := p.verify(); m.Error == nil || !strings.Contains(string(m.Error.Data), "CONFIG_ERROR") {
				t.Errorf("verify: have %s", m.Result)
			}
		})
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	secret := write(t, filepath.Join(dir, "h", "Personal.ics"), foreign)
	if err := os.Mkdir(filepath.Join(dir, "g"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Link": os.Symlink(secret, filepath.Join(dir, "g", "Link.ics")),
	} {
		if err != nil {
			t.Fatal(err)
		}
		p := started(t, dir, `{}`, "")
		p.want("g", "list_reminders", `{"list":"`+name+`"}`, "DAMAGED")
	}
	if err := os.Mkdir(filepath.Join(dir, "g", "Folder.ics"), 0o700); err != nil {
		t.Fatal(err)
	}
	started(t, dir, `{}`, "").want("g", "list_reminders", `{"list":"Folder"}`, "DAMAGED")
}

// What version 1.0.0 kept is there after the update, under the same ids.
func TestOldBook(t *testing.T) {
	const old = `{"last":7,"reminders":[
		{"reminder_id":"R-2","title":"milk","due":"2026-02-17T17:00:00+01:00","list":"Personal","completed":false,"created":"2026-01-01T10:00:00Z"},
		{"reminder_id":"R-5","title":"done\u0007","list":"Work","completed":true,"created":"2026-01-02T10:00:00Z"},
		{"reminder_id":"R-6","title":"odd","due":"next week","list":"a/b","completed":false,"created":""}]}`
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "family.json"), old)
	check := func(p *peer) {
		t.Helper()
		p.want("family", "list_reminders", `{}`, `"reminder_id":"R-2","title":"milk","due":"2026-02-17T16:00:00Z","list":"Personal","completed":false,"created":"2026-01-01T10:00:00Z"`)
		p.want("family", "list_reminders", `{"list":"Work","include_completed":true}`, `"title":"done ","list":"Work","completed":true`)
		p.want("family", "list_reminders", `{"list":"a/b"}`, `"R-6"`)
	}
	p := started(t, dir, `{}`, "")
	check(p)
	if read(t, path+".migrated") != old {
		t.Error("the old book was not kept")
	}
	// Broken off before the end, it goes on where it was.
	if err := os.Rename(path+".migrated", path); err != nil {
		t.Fatal(err)
	}
	check(p)
	if have := p.call("family", "list_reminders", `{}`); strings.Count(have, "R-2") != 1 {
		t.Errorf("have %s", have)
	}
	p.want("family", "create_reminder", `{"title":"new"}`, `"R-8"`)
	if have := read(t, filepath.Join(dir, "family", "a%2Fb.ics")); !strings.Contains(have, "DESCRIPTION:due next week") {
		t.Errorf("have %s", have)
	}
	broken := write(t, filepath.Join(dir, "g.json"), old[:40])
	p.want("g", "create_reminder", `{"title":"x"}`, "DAMAGED")
	if read(t, broken) != old[:40] {
		t.Error("a damaged book was changed")
	}
}

// Two handlers over one folder: no reminder is lost, and no id given twice.
func TestTwoHandlers(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 2 {
		p := started(t, dir, `{}`, "")
		all.Go(func() {
			for range 20 {
				p.want("g", "create_reminder", `{"title":"x"}`, "created")
			}
		})
	}
	all.Wait()
	have := started(t, dir, `{}`, "").want("g", "list_reminders", `{}`, `"R-40"`)
	if n := strings.Count(have, "reminder_id"); n != 40 {
		t.Errorf("have %d", n)
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "BEGIN:VTODO\r\nUID:u%d\r\nSUMMARY:%s\r\nEND:VTODO\r\n", i, strings.Repeat("漢", 900))
	}
	b.WriteString("END:VCALENDAR\r\n")
	write(t, filepath.Join(dir, "g", "Personal.ics"), b.String())
	p := started(t, dir, `{}`, "")
	have := p.want("g", "list_reminders", `{}`, `"more":`)
	if len(have) > 1<<20 || !strings.Contains(have, "…") {
		t.Errorf("have %d bytes", len(have))
	}
	p.want("g", "create_reminder", `{"title":"x"}`, "FULL (retriable false)")
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"url":"https://x/"}`: "add store", `{"store":"ftp"}`: "neither file nor caldav", `{"store":"caldav"}`: "url: use an https address",
		`{"store":"caldav","url":"http://x/","user":"u"}`:           "url: use an https address",
		`{"store":"caldav","url":"https://u:p@x/","user":"u"}`:      "url: use an https address",
		`{"store":"caldav","url":"https://x/"}`:                     "user: name the account",
		`{"store":"caldav","url":"https://x/","user":"u","ca":"x"}`: "ca: no certificate",
		`{"store":7}`: "config_schema",
	} {
		m := begin(t, "").initialize(t.TempDir(), config)
		if m.Error == nil || !strings.Contains(string(m.Error.Data), "CONFIG_ERROR") || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: have %+v, want %s", config, m.Error, want)
		}
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

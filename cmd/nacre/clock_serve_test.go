package main_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clockOf is the time of day that one program is told, which this test sets.
type clockOf struct {
	t      *testing.T
	memory *os.File
	ahead  int64 // where the seconds lie that it is ahead
}

// asksTheKernel asks for a time as the C library does, and adds the seconds behind it to the time of day:
//
//	mov eax, 228; syscall; test edi, edi; jne end; mov rcx, [rip+6]; add [rsi], rcx; end: ret; nop; nop
const asksTheKernel = "\xb8\xe4\x00\x00\x00\x0f\x05\x85\xff\x75\x0a\x48\x8b\x0d\x06\x00\x00\x00\x48\x01\x0e\xc3\x90\x90"

// takesTimeFrom lets a program that runs take its time of day from the test. Go asks no library, but the
// code that the kernel lays into each program (the vDSO), which whoever may trace the program may replace.
// The time that a machine is awake goes on as it does.
func takesTimeFrom(t *testing.T, pid int) *clockOf {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the code that takes the place of the kernel's is for amd64")
	}
	maps := fileText(fmt.Sprintf("/proc/%d/maps", pid))
	line := maps[:max(strings.Index(maps, "[vdso]"), 0)]
	from, to, _ := strings.Cut(strings.Fields(line[strings.LastIndex(line, "\n")+1:] + " -")[0], "-")
	first, err := strconv.ParseInt(from, 16, 64)
	check(t, err)
	last, err := strconv.ParseInt(to, 16, 64)
	check(t, err)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		t.Skip("this machine lets nobody write to another program's memory")
	}
	check(t, err)
	t.Cleanup(func() { _ = memory.Close() }) // it was written to
	code := make([]byte, last-first)
	_, err = memory.ReadAt(code, first)
	check(t, err)
	library, err := elf.NewFile(bytes.NewReader(code))
	check(t, err)
	symbols, err := library.DynamicSymbols()
	check(t, err)
	asks := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	begin := first + int64(symbols[asks].Value)
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	until(t, "nobody to ask for the time", func() bool { return standsOutside(t, pid, begin, begin+64) })
	_, err = memory.WriteAt(append([]byte(asksTheKernel), make([]byte, 8)...), begin)
	check(t, errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)))
	return &clockOf{t, memory, begin + int64(len(asksTheKernel))}
}

// standsOutside tells whether a program stands, and none of its threads in a part of its code. It lets one
// that is there go on.
func standsOutside(t *testing.T, pid int, from, to int64) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	check(t, err)
	for _, thread := range threads {
		fields := strings.Fields(fileText(thread))
		at, err := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err == nil && (at < from || at >= to) {
			continue
		}
		if err == nil {
			check(t, errors.Join(syscall.Kill(pid, syscall.SIGCONT), syscall.Kill(pid, syscall.SIGSTOP)))
		}
		return false // one that runs has not heard yet that it is to stand
	}
	return true
}

// set puts the clock so far ahead of this machine's.
func (c *clockOf) set(ahead time.Duration) {
	c.t.Helper()
	seconds := make([]byte, 8)
	for n := range seconds {
		seconds[n] = byte(int64(ahead/time.Second) >> (8 * n))
	}
	_, err := c.memory.WriteAt(seconds, c.ahead)
	check(c.t, err)
}

// D-34, M-42, M-43, M-46, bad input "clocks that jump": the clock of nacre serve is set on and back while it serves. What a
// schedule missed meanwhile is made up for once, nothing runs twice where the clock was before, and nothing stands still
// where it goes back. Nobody is rung in hours that the clock says are quiet, and who was not is when it says that they
// are over. The session of a time that is still to come is told as one.
func TestTheClockOfServeJumps(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500}
	i := telegrams(t, b)
	now := time.Now().UTC()
	quiet := fmt.Sprintf("quiet_hours = \"%s-%s\"\nzone = \"UTC\"\n", now.Add(7*time.Hour).Format("15:04"), now.Add(11*time.Hour).Format("15:04"))
	i.config(strings.NewReplacer("[operators.ada]\n", "[operators.ada]\n"+quiet, "[operators.bob]\n", "[operators.bob]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\n").Replace(i.configured()))
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	i.nacre("schedule", "add", "--every", "1h", "--prompt", "look around", "--gate", "exit 1").want(t, 0)
	serve := i.serves("serve")
	clock := takesTimeFrom(t, serve.Process.Pid)
	next := func() time.Time { return *i.schedules()[0].Next }
	ran := func() int { return i.countSessions("schedule") }

	clock.set(9 * time.Hour)
	until(t, "the tick that stands for those that were missed", func() bool { return ran() == 1 && next().After(now.Add(9*time.Hour)) })
	asks := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "bob's card", func() bool { return b.count("sendMessage 43: ") == 1 })
	if b.count("sendMessage 42: ") != 0 {
		t.Errorf("ada was rung in quiet hours:\n%s", b.heard())
	}
	has(t, i.nacre("sessions", "list").stdout, "in 8:")
	clock.set(0)
	until(t, "ada's card", func() bool { return b.count("sendMessage 42: ") == 1 })
	until(t, "the schedule to be reckoned anew", func() bool { return next().Before(now.Add(3 * time.Hour)) })
	b.presses(42, b.latest()[0])
	finish(t, asks).want(t, 0, "R-1")
	clock.set(90 * time.Minute)
	until(t, "the tick that was not run before", func() bool { return ran() == 2 && next().After(now.Add(90*time.Minute)) })
	clock.set(9 * time.Hour)
	until(t, "the schedule to go on", func() bool { return next().After(now.Add(9 * time.Hour)) })
	serve.stop()
	if n := ran(); n != 2 {
		t.Errorf("%d ticks ran", n)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-49, bad input "clocks that jump": who signed in at the page is not signed in any more where its clock is set on by a day.
// What they press then does nothing. Set back, the code of another link is used once, as ever.
func TestTheClockOfThePageJumps(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	link, page := i.page()
	clock := takesTimeFrom(t, page)
	site, code, _ := strings.Cut(link, "#")
	jar, err := cookiejar.New(nil)
	check(t, err)
	browser := &http.Client{Jar: jar}
	has(t, sends(t, browser, site, "sign-in", url.Values{"code": {code}}), q.ID)
	shown := hiddenIn(sends(t, browser, site, "", nil))
	shown.Set("verdict", "approve")
	clock.set(-3 * time.Hour)
	has(t, sends(t, browser, site, "sessions", nil), "asks", "began in 2 hours") // it is to come, by the page's clock
	clock.set(24 * time.Hour)
	has(t, sends(t, browser, site, "sessions", nil), "You are not signed in.")
	has(t, sends(t, browser, site, "answer", shown), "You are not signed in, so nothing was done.")
	clock.set(-24 * time.Hour)
	has(t, sends(t, &http.Client{}, site, "sign-in", url.Values{"code": {code}}), "This code was used, is too old, or is not one.")
	i.nacre("approvals", "deny", q.ID).want(t, 0)
	finish(t, r).want(t, 1)
}

package terminal

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	// noticePatience bounds what is asked of a desktop.
	noticePatience = 2 * time.Second
	// noticeEvery is how often a person is told that more waits: a burst is one notice.
	noticeEvery = 10 * time.Second
	// noticeAgain is how often it is asked whether somebody who was not to be told is to be told now.
	noticeAgain = 30 * time.Second

	noticeTitle = "nacre"
	noticeText  = "a question waits"
	noticeNext  = "nacre approvals shows it"

	desktopName = "org.freedesktop.Notifications"
	desktopPath = dbus.ObjectPath("/org/freedesktop/Notifications")
)

// Notice tells a person who looks elsewhere that a question waits, and nothing of what is
// asked: an agent chose those words (U-13). It speaks to the terminal, where that is known
// to pass such on, and else to the person's desktop. A nil Notice tells nobody. Its
// methods may be called concurrently.
type Notice struct {
	terminal io.Writer // nil where none is told
	sequence string    // what the terminal passes on; empty where it is not known to
	address  string    // of the desktop's bus; empty where there is none
	now      func() time.Time
	wanted   func() bool

	mu    sync.Mutex
	waits map[string]bool // the questions, by id
	last  time.Time
	later *time.Timer // while somebody is to be told who does not want it now

	asking  sync.Mutex // one after the other
	shown   uint32     // what the desktop calls the notice
	telling sync.WaitGroup
}

// NewNotice is a notice for the person whose environment it is, and who has a terminal
// before them, or nil. It is shown when wanted says so, which is asked at each question, and
// from then on for as long as one waits.
func NewNotice(getenv func(string) string, terminal io.Writer, now func() time.Time, wanted func() bool) *Notice {
	n := &Notice{terminal: terminal, now: now, wanted: wanted, waits: map[string]bool{}}
	if terminal != nil {
		n.sequence = noticeSequence(getenv)
	}
	if address := getenv("DBUS_SESSION_BUS_ADDRESS"); n.sequence == "" && isSocket(address) {
		n.address = address
	}
	return n
}

// noticeSequence is what a terminal that says its name takes for a notice. A multiplexer
// between takes it for nothing.
func noticeSequence(getenv func(string) string) string {
	name, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || getenv("STY") != "":
		return ""
	case name == "xterm-kitty":
		return "\x1b]99;i=nacre:o=unfocused;" + noticeTitle + ": " + noticeText + "\x1b\\"
	case name == "foot" || name == "foot-extra" || strings.HasPrefix(name, "rxvt-unicode"):
		return "\x1b]777;notify;" + noticeTitle + ";" + noticeText + "\x1b\\"
	case name == "xterm-ghostty" || program == "ghostty" || program == "iTerm.app" || program == "WezTerm":
		return "\x1b]9;" + noticeTitle + ": " + noticeText + "\x1b\\"
	}
	return ""
}

// isSocket takes the addresses of buses that are there, and none that starts a program.
func isSocket(address string) bool {
	return !strings.Contains(address, ";") && (strings.HasPrefix(address, "unix:path=") || strings.HasPrefix(address, "unix:abstract="))
}

// reaches tells whether there is anywhere to tell somebody.
func (n *Notice) reaches() bool { return n != nil && (n.sequence != "" || n.address != "") }

// Waits tells that a question waits. It does not wait itself.
func (n *Notice) Waits(id string) {
	if !n.reaches() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits[id] = true
	if n.later == nil && (len(n.waits) == 1 || n.now().Sub(n.last) >= noticeEvery) {
		n.offer()
	}
}

// offer tells now, or when that is wanted: a question may outlive quiet hours. mu is held.
func (n *Notice) offer() {
	if !n.wanted() {
		n.later = time.AfterFunc(noticeAgain, n.offerAgain)
		return
	}
	n.last = n.now()
	n.telling.Go(n.tell)
}

func (n *Notice) offerAgain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.later = nil; len(n.waits) > 0 {
		n.offer()
	}
}

// Settled tells that a question waits no longer. With the last one the notice goes.
func (n *Notice) Settled(id string) {
	if !n.reaches() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.waits[id] {
		return
	}
	if delete(n.waits, id); len(n.waits) == 0 {
		n.telling.Go(n.tell)
	}
}

// Close takes the notice back, and waits for that, but not long.
func (n *Notice) Close() {
	if !n.reaches() {
		return
	}
	n.mu.Lock()
	if len(n.waits) > 0 {
		clear(n.waits)
		n.telling.Go(n.tell)
	}
	n.mu.Unlock()
	n.telling.Wait()
}

// tell lets the terminal or the desktop show what waits now. One that is not there, or does
// not answer, is no reason to stop: the question waits all the same.
func (n *Notice) tell() {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.mu.Lock()
	waits := len(n.waits)
	n.mu.Unlock()
	if n.sequence != "" {
		if waits > 0 {
			_, _ = io.WriteString(n.terminal, n.sequence)
		}
		return
	}
	n.show(waits)
}

// show lets the desktop show how many questions wait, and nothing where none does. asking is held.
func (n *Notice) show(waits int) {
	if waits == 0 && n.shown == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticePatience)
	defer cancel()
	conn, err := dbus.Connect(n.address, dbus.WithContext(ctx))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // nothing more is said
	desktop := conn.Object(desktopName, desktopPath)
	if waits == 0 {
		_ = desktop.CallWithContext(ctx, desktopName+".CloseNotification", 0, n.shown).Err // it may be gone
		n.shown = 0
		return
	}
	text := noticeText
	if waits > 1 {
		text = fmt.Sprintf("%d questions wait", waits)
	}
	call := desktop.CallWithContext(ctx, desktopName+".Notify", 0, noticeTitle, n.shown, "", noticeTitle+": "+text, noticeNext, []string{}, map[string]dbus.Variant{}, int32(-1))
	_ = call.Store(&n.shown) // what was not shown is not taken back
}

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
	sequence string // what the terminal passes on; empty where it is not known to
	address  string // of the desktop's bus; empty where there is none
	now      func() time.Time
	wanted   func() bool

	mu    sync.Mutex
	waits map[string]bool // the questions, by id
	last  time.Time

	asking  sync.Mutex // one after the other
	shown   uint32     // what the desktop calls the notice
	telling sync.WaitGroup
}

// NewNotice is a notice for the person whose environment it is, and who has a terminal
// before them or not. It is shown while wanted says so, which is asked at each question.
func NewNotice(getenv func(string) string, onTerminal bool, now func() time.Time, wanted func() bool) *Notice {
	n := &Notice{now: now, wanted: wanted, waits: map[string]bool{}}
	if onTerminal {
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

// Sequence is what is printed on the terminal with a question that appears now.
func (n *Notice) Sequence() string {
	if n == nil || n.sequence == "" || !n.wanted() {
		return ""
	}
	return n.sequence
}

// Print prints the sequence on a terminal. One that is gone needs none.
func (n *Notice) Print(terminal io.Writer) { _, _ = io.WriteString(terminal, n.Sequence()) }

// Waits tells that a question waits. It does not wait itself.
func (n *Notice) Waits(id string) {
	if n == nil || n.address == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits[id] = true
	if now := n.now(); (len(n.waits) == 1 || now.Sub(n.last) >= noticeEvery) && n.wanted() {
		n.last = now
		n.telling.Go(n.tell)
	}
}

// Settled tells that a question waits no longer. With the last one the notice goes.
func (n *Notice) Settled(id string) {
	if n == nil || n.address == "" {
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
	if n == nil || n.address == "" {
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

// tell lets the desktop show what waits now. A desktop that is not there, or does not
// answer, is no reason to stop: the question waits all the same.
func (n *Notice) tell() {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.mu.Lock()
	waits := len(n.waits)
	n.mu.Unlock()
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

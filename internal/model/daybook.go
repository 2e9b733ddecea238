package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// lockWait is how long the lock of a daybook may be held by others.
	lockWait = 10 * time.Second
	// keptDays is how many days' journals are kept.
	keptDays = 92
	// maxLine is the longest line of a journal in bytes.
	maxLine = 1 << 10

	dayForm   = "2006-01-02"
	daySuffix = ".jsonl"
)

// errBook says that the account of the day cannot be used, so nothing may be spent.
var errBook = errors.New("the account of what was spent today cannot be used")

// Daybook is what all sessions of an installation have spent, day by day (M-04). It is a folder
// with a journal for each day, which every process writes to under one lock and flushes before a
// call is made. A clock that goes back stays on the last day that was written, so that it refills
// nothing. It is safe for concurrent use.
type Daybook struct {
	dir  string
	zone *time.Location
	now  func() time.Time
	// process begins the names of this process's calls.
	process string
	serial  atomic.Uint64
	// shared is where it is kept for several machines, and not in dir; nil for one.
	shared *sharedBook

	mu sync.Mutex
	// day is the journal that was read up to the offset read.
	day   string
	read  int64
	state budget.Day
}

// NewDaybook keeps its journals in dir, which the first call makes. Days begin
// at midnight in zone.
func NewDaybook(dir string, zone *time.Location, now func() time.Time) *Daybook {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // it cannot fail
	return &Daybook{dir: dir, zone: zone, now: now, process: hex.EncodeToString(name)}
}

// hold is money that is set aside. A nil one is none.
type hold struct {
	book  *Daybook
	day   string
	entry budget.Entry
}

// reserve sets aside what decide answers to what is left. While decide runs
// nobody else, in any process, can reserve. It returns when the reservation is
// on disk.
func (b *Daybook) reserve(ctx context.Context, group nacre.Group, limits budget.DayLimits, decide func(budget.Room) (int64, error)) (*hold, error) {
	if b.shared != nil {
		made, refused, err := b.shared.reserve(ctx, b, group, limits, decide)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBook, err)
		}
		return made, refused
	}
	var made *hold
	var refused error
	err := b.locked(ctx, func() error {
		day, err := b.today()
		if err != nil {
			return err
		}
		file, err := b.open(day)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // what counts was flushed
		if err := b.catchUp(file, day); err != nil {
			return err
		}
		var amount int64
		if amount, refused = decide(budget.Narrowest(b.state.Rooms(group, limits, b.refill(day)))); refused != nil {
			return nil
		}
		h := &hold{b, day, budget.Entry{ID: fmt.Sprintf("%s-%d", b.process, b.serial.Add(1)), Group: group, MicroUSD: min(amount, budget.MaxEntry)}}
		if err := write(file, h.entry); err != nil {
			return err
		}
		made = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBook, err)
	}
	return made, refused
}

// settle says what the call cost, on the day on which it began. Where it
// cannot be written, what was set aside stays charged.
func (h *hold) settle(ctx context.Context, cost int64) error {
	if h == nil {
		return nil
	}
	if h.book.shared != nil {
		return h.book.shared.settle(ctx, h, cost)
	}
	return h.book.locked(ctx, func() error {
		file, err := h.book.open(h.day)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // what counts was flushed
		if err := mend(file); err != nil {
			return err
		}
		end := h.entry
		end.MicroUSD, end.Ended = min(max(cost, 0), budget.MaxEntry), true
		return write(file, end)
	})
}

// Rooms is what is left today of a group's budgets. It writes nothing.
func (b *Daybook) Rooms(group nacre.Group, limits budget.DayLimits) ([]budget.Room, error) {
	if b.shared != nil {
		rooms, err := b.shared.rooms(b, group, limits)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBook, err)
		}
		return rooms, nil
	}
	day, err := b.today()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBook, err)
	}
	data, err := os.ReadFile(b.path(day))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errBook, err)
	}
	var state budget.Day
	if _, err := replay(&state, data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errBook, b.path(day), err)
	}
	return state.Rooms(group, limits, b.refill(day)), nil
}

func (b *Daybook) path(day string) string { return filepath.Join(b.dir, day+daySuffix) }

// refill is when the day after day begins.
func (b *Daybook) refill(day string) time.Time {
	at, err := time.ParseInLocation(dayForm, day, b.zone)
	if err != nil {
		return time.Time{} // days are written here, or were checked
	}
	return time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, b.zone)
}

// today is the day by the clock, or the last that was written if that is later.
func (b *Daybook) today() (string, error) {
	day := b.now().In(b.zone).Format(dayForm)
	days, err := b.days()
	if err != nil {
		return "", err
	}
	if n := len(days); n > 0 && days[n-1] > day {
		return days[n-1], nil
	}
	return day, nil
}

// days are those that have a journal, in order.
func (b *Daybook) days() ([]string, error) {
	files, err := os.ReadDir(b.dir) // which sorts them
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var days []string
	for _, f := range files {
		day, ok := strings.CutSuffix(f.Name(), daySuffix)
		if _, err := time.Parse(dayForm, day); ok && err == nil {
			days = append(days, day)
		}
	}
	return days, nil
}

// locked runs do while no other process is in the book.
func (b *Daybook) locked(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait) // of both locks, so that those in line are late together
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	lock, err := disk.TakeLock(ctx, filepath.Join(b.dir, "lock"))
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Release())
}

// open opens a day's journal. A new one is made durable, and the oldest go.
func (b *Daybook) open(day string) (*os.File, error) {
	file, err := os.OpenFile(b.path(day), os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	days, err := b.days()
	if err != nil {
		return nil, err
	}
	for _, old := range days[:max(len(days)-keptDays, 0)] {
		if err := os.Remove(b.path(old)); err != nil {
			return nil, err
		}
	}
	if file, err = os.OpenFile(b.path(day), os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil {
		return nil, err
	}
	dir, err := os.Open(b.dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// catchUp reads what others have written since.
func (b *Daybook) catchUp(file *os.File, day string) error {
	if err := mend(file); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if b.day != day || info.Size() < b.read {
		b.day, b.read, b.state = day, 0, budget.Day{}
	}
	data := make([]byte, info.Size()-b.read)
	if _, err := file.ReadAt(data, b.read); err != nil && len(data) > 0 {
		return err
	}
	n, err := replay(&b.state, data)
	b.read += int64(n)
	if err != nil {
		b.day = "" // half of it was applied: read it anew
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// replay applies the lines that are whole, and returns how many bytes they have.
func replay(state *budget.Day, data []byte) (n int, err error) {
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			break
		}
		var e budget.Entry
		if _, err := wire.Object(bytes.TrimSuffix(line, []byte("\n")), wire.Limits{Message: maxLine, Depth: 2, String: maxLine}); err != nil {
			return n, fmt.Errorf("damaged at byte %d: %w", n, err)
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return n, fmt.Errorf("damaged at byte %d: %w", n, err)
		}
		if err := state.Apply(e); err != nil {
			return n, fmt.Errorf("damaged at byte %d: %w", n, err)
		}
		n += len(line)
	}
	return n, nil
}

// mend cuts off the beginning of a line that a crash left. What it would have
// set aside was never spent; what it would have ended stays charged.
func mend(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	from := max(0, info.Size()-maxLine)
	tail := make([]byte, info.Size()-from)
	if _, err := file.ReadAt(tail, from); err != nil {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole == len(tail) {
		return nil
	}
	if whole == 0 && from > 0 {
		return fmt.Errorf("%s: damaged: its last line is longer than any that is written here", file.Name())
	}
	return file.Truncate(from + int64(whole))
}

// write appends a line, and returns when it is on disk.
func write(file *os.File, e budget.Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

package budget

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nacre-dev/nacre"
)

// MaxEntry is the most that a line of a journal holds, in micro-dollars: more
// than the dearest call at the highest price.
const MaxEntry = 1 << 50

// DayLimits are what may be spent in one day, in micro-dollars; 0 sets no limit.
type DayLimits struct {
	// All is for all groups together, Group for the one that asks.
	All, Group int64
}

// Entry is one line of a day's journal. The first with an ID sets money aside,
// the second, which is Ended, says what the call cost.
type Entry struct {
	ID       string      `json:"id"`
	Group    nacre.Group `json:"group"`
	MicroUSD int64       `json:"micro_usd"`
	Ended    bool        `json:"ended,omitempty"`
}

// Day is one day's account, of every group and process. What was set aside and
// never ended stays charged: its process may have crashed after it was asked.
// The zero value has nothing spent. It is not safe for concurrent use.
type Day struct {
	open        map[string]Entry
	all         sums
	groups      map[nacre.Group]sums
	initialised bool
}

// sums are micro-dollars.
type sums struct{ spent, held int64 }

// Apply adds a line. One that does not fit what came before is an error, and
// changes nothing.
func (d *Day) Apply(e Entry) error {
	if !d.initialised {
		d.open, d.groups, d.initialised = map[string]Entry{}, map[nacre.Group]sums{}, true
	}
	before, known := d.open[e.ID]
	switch {
	case e.ID == "" || e.Group == "" || e.MicroUSD < 0 || e.MicroUSD > MaxEntry:
		return errors.New("a line names its call, its group and an amount")
	case e.Ended && (!known || before.Group != e.Group):
		return fmt.Errorf("call %.64q ends and was not begun", e.ID)
	case !e.Ended && known:
		return fmt.Errorf("call %.64q begins twice", e.ID)
	}
	change := sums{held: e.MicroUSD}
	d.open[e.ID] = e
	if e.Ended {
		change = sums{spent: e.MicroUSD, held: -before.MicroUSD}
		delete(d.open, e.ID)
	}
	d.all = d.all.plus(change)
	d.groups[e.Group] = d.groups[e.Group].plus(change)
	return nil
}

func (s sums) plus(o sums) sums { return sums{add(s.spent, o.spent), add(s.held, o.held)} }

// Room is what is left of one of a day's budgets, in micro-dollars.
type Room struct {
	// Which names the budget, such as "the day's budget of group main".
	Which string
	Left  int64
	Limit int64
	// Held is set aside for calls that run, or whose process ended without a word.
	Held   int64
	Refill time.Time
}

// Rooms are what is left of each budget that the limits set for a group.
func (d *Day) Rooms(group nacre.Group, limits DayLimits, refill time.Time) []Room {
	var rooms []Room
	room := func(which string, limit int64, s sums) {
		if limit > 0 {
			left := max(limit-add(s.spent, s.held), 0)
			rooms = append(rooms, Room{Which: which, Left: left, Limit: limit, Held: s.held, Refill: refill})
		}
	}
	room("the day's budget of group "+string(group), limits.Group, d.groups[group])
	room("the day's budget of all groups", limits.All, d.all)
	return rooms
}

// Narrowest is the room that has least left; without any there is no limit.
func Narrowest(rooms []Room) Room {
	least := Room{Left: math.MaxInt64}
	for _, r := range rooms {
		if r.Left < least.Left {
			least = r
		}
	}
	return least
}

// Short refuses a reservation that does not fit the room.
func (r Room) Short(need int64) *ExhaustedError {
	return &ExhaustedError{Need: need, Left: r.Left, Limit: r.Limit, Held: r.Held, Which: r.Which, Refill: r.Refill}
}

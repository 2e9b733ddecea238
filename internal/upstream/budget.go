package upstream

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/model"
)

// Daybook is where every session of this installation accounts for what it spends: those of
// all its machines, where it has a store.
func Daybook(inst *installation.Installation) (*model.Daybook, error) {
	zone, err := inst.Config.Model.Zone()
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	if store := inst.Registry.Store(); store != nil {
		return model.NewSharedDaybook(store, zone, inst.Options.Now), nil
	}
	return model.NewDaybook(filepath.Join(inst.Registry.Paths().State, "spending"), zone, inst.Options.Now), nil
}

// Rooms are what is left today of the budgets that hold for a group.
func Rooms(inst *installation.Installation, group nacre.Group) ([]DayBudget, error) {
	book, err := Daybook(inst)
	if err != nil {
		return nil, err
	}
	all, one, err := inst.Config.DayLimits(group)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	rooms, err := book.Rooms(group, budget.DayLimits{All: all, Group: one})
	return DayBudgets(rooms), err
}

// DayBudgets are the rooms of a day's budgets, as the command line shows them.
func DayBudgets(rooms []budget.Room) []DayBudget {
	var all []DayBudget
	for _, r := range rooms {
		all = append(all, DayBudget(r))
	}
	return all
}

// LeftToday says it to a person; empty where no limit is set.
func LeftToday(rooms []DayBudget) string {
	var said []string
	for _, room := range rooms {
		said = append(said, fmt.Sprintf("%s of %s left of %s, until %s", budget.Dollars(room.Left), budget.Dollars(room.Limit), room.Which, room.Refill.Format("2006-01-02 15:04 MST")))
	}
	return strings.Join(said, "; ")
}

// DayBudget is what is left today of one budget, in micro-dollars (M-04).
type DayBudget struct {
	// Which names it, such as "the day's budget of group main".
	Which string `json:"budget"`
	Left  int64  `json:"left_micro_usd"`
	Limit int64  `json:"limit_micro_usd"`
	// Held is set aside for calls that run, or whose process ended without a word.
	Held   int64     `json:"held_micro_usd"`
	Refill time.Time `json:"refills"`
}

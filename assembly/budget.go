package assembly

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // small machines have no zones of their own

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
)

// defaultBudget is what one session may spend where the config does not say, in
// millionths of a dollar.
const defaultBudget = 5_000_000

// checkBudgets reads all that the config says of money and of what is bought with it.
func (c Config) checkBudgets() error {
	if _, err := c.budget(); err != nil {
		return err
	}
	if _, err := c.Model.dayZone(); err != nil {
		return err
	}
	if err := checkVendorTools("model", c.Model.VendorTools); err != nil {
		return err
	}
	if _, err := c.dayLimits(""); err != nil {
		return err
	}
	for name, g := range c.Groups {
		if _, err := c.dayLimits(nacre.Group(name)); err != nil {
			return err
		}
		if g.VendorTools == nil {
			continue
		}
		if err := checkVendorTools("groups."+name, *g.VendorTools); err != nil {
			return err
		}
	}
	return nil
}

func checkVendorTools(where string, names []string) error {
	for _, n := range names {
		if !slices.Contains(model.VendorTools(), n) {
			return fmt.Errorf("%s.vendor_tools: %q: what can be granted is %s", where, n, strings.Join(model.VendorTools(), ", "))
		}
	}
	return nil
}

// vendorTools are those that a group's brains may use.
func (c Config) vendorTools(group nacre.Group) []string {
	if g := c.Groups[string(group)]; g.VendorTools != nil {
		return *g.VendorTools
	}
	return c.Model.VendorTools
}

// budget is what one session may spend, in millionths of a dollar.
func (c Config) budget() (int64, error) {
	if c.Model.BudgetUSD == "" {
		return defaultBudget, nil
	}
	return microDollars("model.budget_usd", c.Model.BudgetUSD)
}

// dayLimits are what may be spent in a day by a group and by all.
func (c Config) dayLimits(group nacre.Group) (limits budget.DayLimits, err error) {
	if text := c.Model.BudgetUSDDay; text != "" {
		if limits.All, err = dayLimit("model.budget_usd_day", text); err != nil {
			return limits, err
		}
	}
	if text := c.Groups[string(group)].BudgetUSDDay; text != "" {
		limits.Group, err = dayLimit("groups."+string(group)+".budget_usd_day", text)
	}
	return limits, err
}

// dayLimit refuses 0, which would be read as no limit.
func dayLimit(key, text string) (int64, error) {
	micro, err := microDollars(key, text)
	if err == nil && micro == 0 {
		return 0, fmt.Errorf("%s = %q: write what may be spent, or leave it out for no limit", key, text)
	}
	return micro, err
}

// microDollars reads an amount without rounding it.
func microDollars(key, text string) (int64, error) {
	whole, cents, point := strings.Cut(text, ".")
	bad := fmt.Errorf("%s = %q: write dollars, such as \"1.50\"", key, text)
	if len(cents) > 6 || whole == "" || point && cents == "" {
		return 0, bad
	}
	var micro int64
	for _, r := range whole + (cents + "000000")[:6] {
		if r < '0' || r > '9' || micro > 1e12 {
			return 0, bad
		}
		micro = micro*10 + int64(r-'0')
	}
	return micro, nil
}

// dayZone is where days begin at midnight.
func (m ModelConfig) dayZone() (*time.Location, error) {
	zone, err := time.LoadLocation(m.DayZone)
	if err != nil {
		return nil, fmt.Errorf("model.day_zone = %q: this machine knows no such time zone: write one such as \"Europe/Berlin\"", m.DayZone)
	}
	return zone, nil
}

// daybook is where every session of this installation accounts for what it spends.
func (r *Runtime) daybook() (*model.Daybook, error) {
	zone, err := r.config.Model.dayZone()
	if err != nil {
		return nil, &ConfigError{err}
	}
	return model.NewDaybook(filepath.Join(r.registry.Paths().State, "spending"), zone, r.options.Now), nil
}

// rooms are what is left today of the budgets that hold for a group.
func (r *Runtime) rooms(group nacre.Group) ([]DayBudget, error) {
	book, err := r.daybook()
	if err != nil {
		return nil, err
	}
	limits, err := r.config.dayLimits(group)
	if err != nil {
		return nil, &ConfigError{err}
	}
	rooms, err := book.Rooms(group, limits)
	return dayBudgets(rooms), err
}

func dayBudgets(rooms []budget.Room) []DayBudget {
	var all []DayBudget
	for _, r := range rooms {
		all = append(all, DayBudget(r))
	}
	return all
}

// leftToday says it to a person; empty where no limit is set.
func leftToday(rooms []DayBudget) string {
	var said []string
	for _, room := range rooms {
		said = append(said, fmt.Sprintf("%s of %s left of %s, until %s", budget.Dollars(room.Left), budget.Dollars(room.Limit), room.Which, room.Refill.Format("2006-01-02 15:04 MST")))
	}
	return strings.Join(said, "; ")
}

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/model"
)

// defaultBudget is what one session may spend where the config does not say, in
// millionths of a dollar.
const defaultBudget = 5_000_000

// checkBudgets reads all that the config says of money and of what is bought with it.
func (c Config) checkBudgets() error {
	if _, err := c.Budget(); err != nil {
		return err
	}
	if _, err := c.Model.Zone(); err != nil {
		return err
	}
	if err := checkVendorTools("model", c.Model.VendorTools); err != nil {
		return err
	}
	if _, _, err := c.DayLimits(""); err != nil {
		return err
	}
	for name, g := range c.Groups {
		if _, _, err := c.DayLimits(nacre.Group(name)); err != nil {
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

// VendorTools are those that a group's brains may use.
func (c Config) VendorTools(group nacre.Group) []string {
	if g := c.Groups[string(group)]; g.VendorTools != nil {
		return *g.VendorTools
	}
	return c.Model.VendorTools
}

// Budget is what one session may spend, in millionths of a dollar.
func (c Config) Budget() (int64, error) {
	if c.Model.BudgetUSD == "" {
		return defaultBudget, nil
	}
	return MicroDollars("model.budget_usd", c.Model.BudgetUSD)
}

// DayLimits are what may be spent in a day by all groups together and by one, in millionths of a
// dollar. 0 is no limit.
func (c Config) DayLimits(group nacre.Group) (all, one int64, err error) {
	if text := c.Model.BudgetUSDDay; text != "" {
		if all, err = dayLimit("model.budget_usd_day", text); err != nil {
			return 0, 0, err
		}
	}
	if text := c.Groups[string(group)].BudgetUSDDay; text != "" {
		one, err = dayLimit("groups."+string(group)+".budget_usd_day", text)
	}
	return all, one, err
}

// dayLimit refuses 0, which would be read as no limit.
func dayLimit(key, text string) (int64, error) {
	micro, err := MicroDollars(key, text)
	if err == nil && micro == 0 {
		return 0, fmt.Errorf("%s = %q: write what may be spent, or leave it out for no limit", key, text)
	}
	return micro, err
}

// MicroDollars reads an amount without rounding it.
func MicroDollars(key, text string) (int64, error) {
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

// Zone is where days begin at midnight.
func (m Model) Zone() (*time.Location, error) {
	zone, err := time.LoadLocation(m.DayZone)
	if err != nil {
		return nil, fmt.Errorf("model.day_zone = %q: this machine knows no such time zone: write one such as \"Europe/Berlin\"", m.DayZone)
	}
	return zone, nil
}

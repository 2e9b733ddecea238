package leftover

import (
	"context"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	// muchRoom is from how many bytes on old sessions are said to take too much.
	muchRoom = 1 << 30
	// oldAge and newest are what is old where [retention] does not say it.
	oldAge, newest = 30 * 24 * time.Hour, 20
)

// CheckRoom looks for old sessions that take much room (M-60). Such with work that did not
// land are none of them. Where the disk is short of room, any are too many.
func CheckRoom(ctx context.Context, inst *installation.Installation, short bool) installation.Finding {
	much := int64(muchRoom)
	if short {
		much = 1
	}
	rule := Rule{Older: oldAge, Keep: newest, Dry: true}
	if kept := inst.Config.Retention; kept.IsSet() {
		age, err := kept.Age()
		if err != nil {
			return installation.Finding{Name: "room", Status: "fail", Text: err.Error()}
		}
		rule.Older, rule.Keep = age, kept.Keep
	}
	old, err := Prune(ctx, inst, rule)
	if err != nil {
		return installation.Finding{Name: "room", Status: "fail", Text: err.Error(), Fix: "nacre sessions tells which"}
	}
	room := registry.Usage{Whole: true}
	budget := listBudget
	for _, id := range old.Removed {
		one := registry.UsageOf(inst.Registry.Paths().Session(id), &budget)
		room.Bytes, room.Whole = room.Bytes+one.Bytes, room.Whole && one.Whole
	}
	if room.Bytes < much && room.Whole {
		return installation.Finding{Name: "room", Status: "ok", Text: fmt.Sprintf("old sessions take %d MiB", room.Bytes>>20)}
	}
	rule.Dry = false
	return installation.Finding{
		Name: "room", Status: "warn", Text: fmt.Sprintf("%d old sessions take %d MiB or more", len(old.Removed), room.Bytes>>20),
		Fix:   fmt.Sprintf("nacre sessions prune --older %s --keep %d, or [retention] in config.toml, which does it by itself", ageText(rule.Older), rule.Keep),
		Offer: fmt.Sprintf("remove %d old sessions; their records, receipts and rows in the ledger stay", len(old.Removed)),
		Repair: func(ctx context.Context, _ func(string)) error {
			_, err := Prune(ctx, inst, rule)
			return err
		},
	}
}

// ageText spells an age as --older reads it.
func ageText(age time.Duration) string {
	if days := age / (24 * time.Hour); age%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return age.String()
}

package installation

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// Finding is what doctor found of one part. Each part was tried, not looked up.
type Finding struct {
	Name string `json:"name"`
	// Status is "ok", "warn" (works, with less) or "fail".
	Status string `json:"status"`
	Text   string `json:"text"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
	// Offer says what Repair does. Both are empty where only a person can put it right.
	Offer string `json:"offer,omitempty"`
	// Repair does what is offered; tell is told what a person has to know of it.
	Repair func(ctx context.Context, tell func(text string)) error `json:"-"`
	// Choice says that a person has to choose the repair at a terminal: --yes leaves it.
	Choice bool `json:"choice,omitempty"`
	// Moot reports that a repair that came before made this one needless; nil never is.
	Moot func() bool `json:"-"`
}

// Unread says that what config.toml names cannot be read.
func Unread(err error) Finding {
	return Finding{Name: "config", Status: "fail", Text: err.Error(), Fix: "no session that needs it works until it is there, or out of config.toml"}
}

// SystemMounts are the machine's tool folders, where the backend shows them.
func SystemMounts(box sandbox.Backend) []nacre.Mount {
	if !box.HostTools() {
		return nil
	}
	return sandbox.SystemMounts()
}

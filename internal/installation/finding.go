package installation

import (
	"context"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/layering"
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
}

// SystemMounts are the machine's tool folders, where the backend shows them.
func SystemMounts(box sandbox.Backend) []nacre.Mount {
	if !box.HostTools() {
		return nil
	}
	return sandbox.SystemMounts()
}

// Layers is what layers over a commit's files are tried on (P-03).
func Layers(inst *Installation, box sandbox.Backend) layering.Machine {
	return layering.Machine{
		Box: box, System: SystemMounts(box), Dir: filepath.Join(inst.Registry.Paths().State, "bases"), Version: inst.Options.Version,
		Now: inst.Options.Now,
	}
}

// LayeredBases is where the bases of commits are that stages are layers over; empty where
// this machine or this backend lays no layers.
func LayeredBases(ctx context.Context, inst *Installation, box sandbox.Backend) string {
	m := Layers(inst, box)
	if layering.Work(ctx, m) != nil {
		return ""
	}
	return m.Dir
}

// Package tables lists which rooms keep something in the store that machines share, and the
// migrations of their tables.
package tables

import (
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/rates"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/schedule"
)

// Room is one that keeps something in the store.
type Room struct {
	Name       string
	Migrations []string
}

// Rooms are all of them, each after those whose tables it needs.
func Rooms() []Room {
	return []Room{
		{"node", node.Migrations()}, {"inbox", inbox.Migrations()}, {"schedule", schedule.Migrations()},
		{"revocation", shared.Migrations()}, {"approval", approval.Migrations()}, {"ledger", ledger.Migrations()},
		{"spending", model.Migrations()}, {"rates", rates.Migrations()}, {"machines", machines.Migrations()},
		{"memory", memory.Migrations()},
	}
}

package operator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
)

// MemoryMark names an entry in a record, without what it says.
type MemoryMark struct {
	ID string `json:"id"`
	// Digest tells for who has the installation's keys which text it was.
	Digest string `json:"digest"`
	Why    string `json:"why,omitempty"`
}

// MarkMemory names an entry's content by a digest under the installation's keys.
func MarkMemory(inst *installation.Installation, id, content, why string) MemoryMark {
	mac := hmac.New(sha256.New, inst.Keys.MAC())
	_, _ = mac.Write([]byte(id + "\x00" + content)) // a hash takes everything
	return MemoryMark{ID: id, Digest: hex.EncodeToString(mac.Sum(nil)), Why: why}
}

// MemoryChange is what an operator does to a group's memory, who does it, and which
// entries it concerns.
type MemoryChange struct {
	Group     nacre.Group
	What, Who string
	Marks     []MemoryMark
}

// ChangeMemory does what an operator does to a group's memory: what it is and
// which entries it concerns is durably recorded first, and then that it was done.
func ChangeMemory(ctx context.Context, inst *installation.Installation, change MemoryChange, do func() error) (err error) {
	chain, closed, err := Chain(ctx, inst, memoryChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	commit := func(outcome, reason string, detail map[string]any) error {
		raw, err := json.Marshal(detail)
		if err != nil {
			return err
		}
		return chain.Commit(context.WithoutCancel(ctx), nacre.Record{
			Time: inst.Options.Now(), Kind: nacre.KindMemory, Group: change.Group, Source: "operator", Outcome: outcome, Reason: reason, Detail: raw,
		})
	}
	for some := range slices.Chunk(change.Marks, installation.MarksInRecord) {
		if err := commit(change.What, "", map[string]any{"by": change.Who, "entries": some}); err != nil {
			return err
		}
	}
	if len(change.Marks) == 0 {
		if err := commit(change.What, "", map[string]any{"by": change.Who}); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return errors.Join(err, commit(change.What+" failed", err.Error(), map[string]any{"by": change.Who}))
	}
	return commit(change.What+" done", "", map[string]any{"by": change.Who, "count": len(change.Marks)})
}

package assembly

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/erasure"
	"github.com/nacre-dev/nacre/internal/person"
)

type (
	// Forget says what a group is to forget, and who wants it.
	Forget = erasure.Forget
	// Forgetting is all that is erased with what is to be forgotten, and what is not reached.
	Forgetting = erasure.Forgetting
)

// LookForgetting tells what [ForgetMemory] would erase. Nothing changes.
func LookForgetting(ctx context.Context, r *Runtime, f Forget) (Forgetting, error) {
	return erasure.Look(ctx, r.inst, f)
}

// ForgetMemory records what was told to be erased, and erases it, where the person has the
// right to (M-41). Where all of it is gone, and traces are left that go later, its error says so.
func ForgetMemory(ctx context.Context, r *Runtime, f Forget, told Forgetting) error {
	if err := cockpit.Decides(r.inst, r.by, string(person.Memory), f.Group); err != nil {
		return err
	}
	return erasure.Erase(ctx, r.inst, f, told)
}

// FinishForgetting ends what erasures have left, and names the files that hold traces of them
// all the same.
func FinishForgetting(ctx context.Context, r *Runtime, group nacre.Group) error {
	return erasure.Finish(ctx, r.inst, group)
}

// MemoryRemains looks for what is left of what was told to be erased, and goes through all
// files of the installation's state for the words themselves. Nothing changes.
func MemoryRemains(ctx context.Context, r *Runtime, f Forget, told Forgetting, erased bool) ([]MemoryRemain, error) {
	return erasure.Remains(ctx, r.inst, f, told, erased)
}

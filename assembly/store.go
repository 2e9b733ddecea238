package assembly

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/store"
)

// What is told of the database that the machines of an installation share.
type (
	// StoreVersion is that of the tables of one room.
	StoreVersion = store.Version
	// StoreReport is what a look at all of it found.
	StoreReport = store.Report
	// StoreCopy is what a copy says of itself.
	StoreCopy = store.Copy
	// StoreMachine is a machine that has asked to be admitted.
	StoreMachine = machines.Listed
	// StoreSession is a session of another machine.
	StoreSession = machines.Session
)

// OtherSessions are those of the other machines that share the store, the newest first: those alone
// that work where working is true. Those that are lost are recorded as such first, which waits for as long as a
// lease lasts where one has ended. With an error, those that are known.
func OtherSessions(ctx context.Context, r *Runtime, working bool) ([]StoreSession, error) {
	s := machines.SessionsOf(r.inst.Registry, r.inst.Keys)
	err := s.Notice(ctx)
	if err == nil {
		err = operator.LoseSessions(ctx, r.inst)
	}
	list, listErr := s.List(ctx, working)
	return list, errors.Join(err, listErr)
}

// OtherSession is one of another machine. machine is its name, or as much of the id at the end of it as the
// ledger tells.
func OtherSession(ctx context.Context, r *Runtime, machine string, id nacre.SessionID) (StoreSession, error) {
	s := machines.SessionsOf(r.inst.Registry, r.inst.Keys)
	if s == nil {
		return StoreSession{}, store.ErrNone
	}
	return s.Show(ctx, machine, id)
}

// ReadOtherAudit gives each record of another machine's session, as the store has it, after it was
// verified. machine is as for [OtherSession].
func ReadOtherAudit(ctx context.Context, r *Runtime, machine string, id nacre.SessionID, take func(audit.Entry) error) error {
	m := machines.Of(r.inst.Registry, r.inst.Keys)
	if m == nil {
		return store.ErrNone
	}
	return m.Read(ctx, machine, id, take)
}

// StoreMachines are all that have asked to be admitted to the store, this one among them.
func StoreMachines(ctx context.Context, r *Runtime) ([]StoreMachine, error) {
	m := machines.Of(r.inst.Registry, r.inst.Keys)
	if m == nil {
		return nil, store.ErrNone
	}
	return m.List(ctx)
}

// AdmitMachine lets a machine record what it does. It is for the machine that holds the
// installation's key.
func AdmitMachine(ctx context.Context, r *Runtime, name string) (StoreMachine, error) {
	m := machines.Of(r.inst.Registry, r.inst.Keys)
	if m == nil {
		return StoreMachine{}, store.ErrNone
	}
	return m.Admit(ctx, name)
}

// RetireMachine takes the chains of a machine that is gone for good out of the store, and tells how many records
// those were. It is for the machine that holds the installation's key.
func RetireMachine(ctx context.Context, r *Runtime, name, by string) (uint64, error) {
	m := machines.Of(r.inst.Registry, r.inst.Keys)
	if m == nil {
		return 0, store.ErrNone
	}
	return m.Retire(ctx, name, by, r.inst.Options.Now())
}

// PruneAudit removes what is old of this installation's chains, here and in the store (K-20). o says what; its keys, root
// and clock are the installation's.
func PruneAudit(ctx context.Context, r *Runtime, o audit.PruneOptions) (list []audit.Pruned, err error) {
	o.Root, o.Keys, o.Now = r.AuditRoot(), r.inst.Keys, r.inst.Options.Now
	if !o.DryRun {
		if o.Elsewhere, err = r.inst.Elsewhere(ctx); err != nil {
			return nil, err
		}
	}
	list, err = audit.Prune(ctx, o)
	if err == nil && !o.DryRun {
		err = machines.Of(r.inst.Registry, r.inst.Keys).Prune(ctx)
	}
	return list, err
}

// VerifyMachines verifies the chains of all machines as the store has them; none without a store.
// Chains are called MACHINE/CHAIN.
func VerifyMachines(ctx context.Context, r *Runtime) ([]audit.Report, error) {
	m := machines.Of(r.inst.Registry, r.inst.Keys)
	if m == nil {
		return nil, nil
	}
	return m.Verify(ctx)
}

// MigrateStore brings all tables of the installation's store forward, all or none, and tells
// what they were before.
func MigrateStore(ctx context.Context, r *Runtime) ([]StoreVersion, error) {
	return store.Migrate(ctx, r.inst)
}

// VerifyStore holds the store against what it should be, and changes nothing.
func VerifyStore(ctx context.Context, r *Runtime) (StoreReport, error) {
	return store.Verify(ctx, r.inst)
}

// BackUpStore writes a copy of the store, of one moment, into a new file. An error leaves none.
func BackUpStore(ctx context.Context, r *Runtime, path string) (StoreCopy, error) {
	return store.Backup(ctx, r.inst, path)
}

// CheckStoreCopy holds a copy against its seal.
func CheckStoreCopy(path string) (StoreCopy, error) { return store.CheckCopy(path) }

// RestoreStore puts a copy into the store's database, which must be empty, whole or not at all.
func RestoreStore(ctx context.Context, r *Runtime, path string) (StoreCopy, error) {
	return store.Restore(ctx, r.inst, path)
}

// Package ledger keeps one row for every run, visit and task, in one SQLite file (S-15). A row says
// who was asked what by whom, in which role, what came of it, what it cost, and where in the audit
// chain that is recorded.
//
// It promises that a run's status only moves forward: done and failed only from running, merged and
// rejected only from done. A run is interrupted while no session works on it. A row and its texts
// are written whole or not at all. What counts as verified came from a strong check of the host or
// from a person, never from a report (M-50). A file that is damaged, newer or not a ledger is
// refused and not repaired. Texts can be forgotten; rows, digests and what they stand on stay.
//
// It decides nothing, and what it says is only as true as its caller. What can be verified is the
// record in the audit chain, to which every change of a row points.
package ledger

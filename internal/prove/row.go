// Package prove shows on this machine that a sandbox holds (U-41). It lays decoys, plays every
// escape probe of [probe] in sandboxes of a backend and once more where nothing holds it, and
// judges each by both. What the probes may harm are the decoys that it laid, and it takes them away
// again. It does not choose the backend, and prints nothing.
package prove

import ()

// Outcome of a probe. The zero value is none.
type Outcome string

// The outcomes.
const (
	// Blocked: it got out in the control run, and not in the sandbox.
	Blocked Outcome = "blocked"
	// Reported: what it left was named before the host acted on it.
	Reported Outcome = "reported"
	// NotEnforced: it gets out for a reason that the backend names.
	NotEnforced Outcome = "not enforced"
	// NotTestable: it did not get out where nothing holds it either.
	NotTestable Outcome = "not testable here"
	// GotThrough: it got out, and nothing says why.
	GotThrough Outcome = "got through"
	// Unproven: its control run, in which it must get out, did not let it.
	Unproven Outcome = "unproven"
	// NotTried: there is no sandbox to get out of.
	NotTried Outcome = "not tried"
)

// Holds reports whether the outcome is one that a wall may have.
func (o Outcome) Holds() bool {
	return o == Blocked || o == Reported || o == NotEnforced || o == NotTestable
}

// Row is what became of one probe.
type Row struct {
	Class   string  `json:"class"`
	Probe   string  `json:"probe"`
	Outcome Outcome `json:"outcome"`
	// Reason is what stopped it, or why it was not stopped or tried.
	Reason string `json:"reason"`
	// Control is what it did where nothing holds it.
	Control string `json:"control"`
}

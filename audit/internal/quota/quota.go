// Package quota promises that a flood of refusals leaves a chain room to act, and that what began
// has room to end (D-16).
package quota

import "github.com/nacre-dev/nacre"

// Min is the smallest quota, in bytes: it leaves room for the end of a chain that could not do
// anything.
const Min = 1 << 20

// Rank says how much of a chain's quota a kind of record may use.
type Rank uint8

const (
	rankNoise Rank = iota // three quarters of the quota
	rankBegin             // up to the reserve
	rankEnd               // all of it
)

// endReserve is kept for the end records of what has begun, in bytes.
const endReserve = Min / 4

// Limit is how many bytes of a quota the chain may have with a record of this rank.
func (r Rank) Limit(quota int64) int64 {
	switch r {
	case rankEnd:
		return quota
	case rankBegin:
		return quota - endReserve
	case rankNoise:
	}
	return (quota - endReserve) / 4 * 3
}

// Of is the rank of a kind of record.
func Of(k nacre.Kind) Rank {
	switch k {
	case nacre.KindCallBegin, nacre.KindModelBegin, nacre.KindMergeIntent, nacre.KindApprovalAsk,
		nacre.KindSessionOpen, nacre.KindSandboxStart, nacre.KindVerify, nacre.KindMemory, nacre.KindPlugin, nacre.KindRunKept:
		return rankBegin
	case nacre.KindCallEnd, nacre.KindCallHandler, nacre.KindModelEnd, nacre.KindMergeDone, nacre.KindApprovalReply, nacre.KindApprovalClaim,
		nacre.KindSessionClose, nacre.KindSandboxExit, nacre.KindOutcome, nacre.KindChainClose, nacre.KindChainOpen:
		return rankEnd
	default:
		return rankNoise
	}
}

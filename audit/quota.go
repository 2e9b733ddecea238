package audit

import "github.com/nacre-dev/nacre"

// rank says how much of a chain's quota a kind of record may use. A flood of
// rejections leaves room to act, and beginning leaves room to end (D-16).
type rank uint8

const (
	rankNoise rank = iota // three quarters of the quota
	rankBegin             // up to the reserve
	rankEnd               // all of it
)

// endReserve is kept for the end records of what has begun, in bytes.
const endReserve = MinQuota / 4

func (r rank) limit(quota int64) int64 {
	switch r {
	case rankEnd:
		return quota
	case rankBegin:
		return quota - endReserve
	case rankNoise:
	}
	return (quota - endReserve) / 4 * 3
}

func rankOf(k nacre.Kind) rank {
	switch k {
	case nacre.KindCallBegin, nacre.KindModelBegin, nacre.KindMergeIntent, nacre.KindApprovalAsk,
		nacre.KindSessionOpen, nacre.KindSandboxStart, nacre.KindVerify, nacre.KindMemory, nacre.KindPlugin:
		return rankBegin
	case nacre.KindCallEnd, nacre.KindCallHandler, nacre.KindModelEnd, nacre.KindMergeDone, nacre.KindApprovalReply, nacre.KindApprovalClaim,
		nacre.KindSessionClose, nacre.KindSandboxExit, nacre.KindOutcome, nacre.KindChainClose, nacre.KindChainOpen:
		return rankEnd
	case nacre.KindCallReject, nacre.KindApprovalRefuse, nacre.KindEgress, nacre.KindBrainEvent, nacre.KindGateRefuse, nacre.KindGateWarn:
	}
	return rankNoise
}

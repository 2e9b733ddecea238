// Package audit promises that what happened can be checked by somebody who does not trust the one who wrote it down
// (K-20, K-21). Chains of records in plain files are linked by SHA-256 and authenticated by a MAC, with heads that
// Ed25519 signs. An index chain knows every other chain, and receipts are signed. The format is written down in
// docs/audit-format.md; verify_audit.py checks it independently.
//
// It does not decide what is recorded. It does not defend against someone who has both the signing key and no head kept
// elsewhere: hold a receipt on another machine for that.
package audit

import (
	"errors"
	"time"

	"github.com/nacre-dev/nacre/audit/internal/member"
	"github.com/nacre-dev/nacre/audit/internal/quota"
	"github.com/nacre-dev/nacre/internal/canonical"
)

// Limits of the format. A reader refuses what is over them.
const (
	// MaxLine is the longest line of a chain in bytes, its newline included.
	MaxLine = 128 << 10
	// MaxText is the longest text member in bytes; longer ones are cut and marked.
	MaxText = member.Max
	// MaxDetail is the largest detail of a record in canonical bytes.
	MaxDetail = 32 << 10
	// MaxDepth is how deep a detail may nest, itself counted.
	MaxDepth = canonical.MaxDepth
	// MaxReceipt is the largest receipt in bytes.
	MaxReceipt = 1 << 20
)

// Sizes that a writer keeps to.
const (
	// DefaultSegmentBytes is where a chain goes on in a new segment.
	DefaultSegmentBytes = 8 << 20
	// DefaultQuota bounds all segments of one chain together, in bytes (D-16).
	DefaultQuota = 1 << 30
	// MinQuota leaves room for the end of a chain that could not do anything.
	MinQuota = quota.Min
	// maxPending is how many bytes may wait for the disk before Append waits.
	maxPending = 1 << 20
	// appendDelay is the longest time until an appended record is synced.
	appendDelay = 10 * time.Millisecond
	// maxSegments is given by the six digits of a segment's name.
	maxSegments = 999_999
	// indexSegmentBytes is small because every entry reads the last segment.
	indexSegmentBytes = 32 << 10
	// writerWait is how long Open waits for another writer to let go, indexWait how long an entry in the index may take.
	writerWait = 500 * time.Millisecond
	indexWait  = 30 * time.Second
)

// IndexChain is the name of the chain that registers all others.
const IndexChain = "index"

// The errors to tell apart. Those of a verification wrap ErrTampered or
// ErrUnsealed; both mean that the chain is not proven.
var (
	// ErrTampered is evidence: something was changed, inserted, removed or reordered.
	ErrTampered = errors.New("audit evidence does not hold")
	// ErrUnsealed is the want of evidence: the writer ended without a closing
	// head, so that records after the last signed head cannot be proven complete.
	ErrUnsealed = errors.New("audit chain has no closing head and no living writer")
	// ErrLocked means that another process writes the chain.
	ErrLocked = errors.New("audit chain is being written by another process")
	// ErrClosed is what a chain answers after Close.
	ErrClosed = errors.New("audit chain is closed")
	// ErrQuota means that the chain's bytes are used up for this kind of record:
	// the session must be contained (D-16).
	ErrQuota = errors.New("audit quota of this session is used up")
	// ErrRecord means that a record cannot be written in the format; nothing was recorded.
	ErrRecord = errors.New("audit record is malformed")
)

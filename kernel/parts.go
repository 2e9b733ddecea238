package kernel

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/policy"
)

// catalog is what can be called, and by which groups.
type catalog struct {
	governed *governed
	// takesFiles is set where files that calls name can be copied.
	takesFiles bool
	index      atomic.Pointer[searchable]
	// risky is set once a capability has sinks: until then nobody asks where a
	// value was seen.
	risky atomic.Bool

	// mu guards what is registered.
	mu       sync.RWMutex
	tools    map[nacre.ToolName]*tool
	ids      map[nacre.CapabilityID]*tool
	warnings []string
}

// judge says who may do what, and how often.
type judge struct {
	revocations Revocations
	limiter     *policy.Limiter
}

// grants are the tokens that were made, and what was spent of them.
type grants struct {
	keys    *token.Ring
	revoked Revocations
	clock   func() time.Time
	ids     *entropy
	uses    token.Ledger
	granted granted
	// swept is when revocations were last asked to forget, in nanoseconds.
	swept atomic.Int64
}

// desk asks persons.
type desk struct {
	approver nacre.Approver
	askTTL   time.Duration
	waiting  *leftovers
	log      *journal
	ids      *entropy
}

// acts carries out what was decided, on copies of the files that it is about.
type acts struct {
	hooks  []ResultHook
	pinner Pinner
	left   *leftovers
	log    *journal
	sealing
}

// results show what came of it, and keep the rest.
type results struct {
	handles *handle.Store
	// limit says how much of one result is shown; nil means the default.
	limit func(nacre.Group, nacre.ToolName) nacre.ResultLimits
	// rooms are where frames are made, of *firewall.Room.
	rooms sync.Pool
	risky *atomic.Bool
	log   *journal
	ids   *entropy
	sealing
}

// journal writes down and counts what happens.
type journal struct {
	recorder nacre.Recorder
	now      func() time.Time
	redactor *redact.Engine
	counters counters
	health   health
	events   *traces
	// warn tells the host what it should know of, once.
	warn func(string)
}

// entropy is randomness of which many bytes are read at once.
type entropy struct {
	random io.Reader

	// mu guards what was read and not used yet.
	mu      sync.Mutex
	drawn   [randomBytes]byte
	undrawn []byte
}

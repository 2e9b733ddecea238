package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/audit/internal/naming"
)

// catalogVersion is that of a catalog's file; any other is made anew.
const catalogVersion = 3

// catalogSchema holds where each record stands, and what is searched for. What is searched for
// together has an index together: a search that finds little shall not walk through all that fits in part.
const catalogSchema = `
CREATE TABLE progress (chain TEXT PRIMARY KEY, first INTEGER, segment INTEGER, offset INTEGER, next INTEGER, prev BLOB, moves INTEGER) WITHOUT ROWID;
CREATE INDEX progress_moves ON progress (chain) WHERE moves;
CREATE TABLE entry (chain TEXT, seq INTEGER, segment INTEGER, offset INTEGER, size INTEGER, time INTEGER,
	grp TEXT, session TEXT, kind TEXT, outcome TEXT, reason TEXT, capability TEXT, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE INDEX entry_time ON entry (time, chain, seq);
CREATE INDEX entry_session ON entry (session, time, chain, seq);
CREATE INDEX entry_session_kind ON entry (session, kind, time, chain, seq);
CREATE INDEX entry_session_outcome ON entry (session, outcome, time, chain, seq);
CREATE INDEX entry_kind ON entry (kind, time, chain, seq);
CREATE INDEX entry_kind_outcome ON entry (kind, outcome, time, chain, seq);
CREATE INDEX entry_outcome ON entry (outcome, time, chain, seq);
CREATE INDEX entry_reason ON entry (reason, time, chain, seq);
CREATE INDEX entry_capability ON entry (capability, time, chain, seq);
`

// PrepareCatalog is [Prepare] for a catalog.
func PrepareCatalog(ctx context.Context, db *sql.DB) error {
	return Prepare(ctx, db, catalogVersion, catalogSchema)
}

// Nanos is a time as a catalog sorts it. Years beyond its range stand at its ends.
func Nanos(t time.Time) int64 {
	switch seconds := t.Unix(); {
	case seconds > 1<<62/int64(time.Second):
		return 1 << 62
	case seconds < 0:
		return -1
	}
	return t.UnixNano()
}

// Cursor is where a page of a catalog ended.
func Cursor(at int64, chain string, seq uint64) string {
	return fmt.Sprintf("%d/%s/%d", at, chain, seq)
}

// ParseCursor reads what [Cursor] wrote.
func ParseCursor(s string) (at int64, chain string, seq uint64, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return 0, "", 0, false
	}
	at, errAt := strconv.ParseInt(parts[0], 10, 64)
	seq, errSeq := strconv.ParseUint(parts[2], 10, 53)
	return at, parts[1], seq, errAt == nil && errSeq == nil && naming.IsChain(parts[1])
}

// Spot is where a catalog says that a record stands, and when it was written.
type Spot struct {
	Chain              string
	Seq                uint64
	Segment            int
	Offset, Size, Time int64
}

// Beyond is the term of a condition that selects what stands behind a [Cursor], whose three parts are
// its arguments.
func Beyond(newest bool) string {
	if newest {
		return "(time, chain, seq) < (?, ?, ?)"
	}
	return "(time, chain, seq) > (?, ?, ?)"
}

// Spots are where the records stand that a condition selects, by time, chain and number, or the other
// way round. The last argument is how many at most.
func Spots(ctx context.Context, db *sql.DB, where string, args []any, newest bool) (spots []Spot, err error) {
	order := "time, chain, seq"
	if newest {
		order = "time DESC, chain DESC, seq DESC"
	}
	found, err := db.QueryContext(ctx, "SELECT chain, seq, segment, offset, size, time FROM entry"+where+" ORDER BY "+order+" LIMIT ?", args...) //nolint:gosec // terms and orders of this program's own
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var s Spot
		if err := found.Scan(&s.Chain, &s.Seq, &s.Segment, &s.Offset, &s.Size, &s.Time); err != nil {
			return nil, err
		}
		spots = append(spots, s)
	}
	return spots, found.Err()
}

package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/audit/internal/naming"
)

// catalogVersion is that of a catalog's file; any other is made anew.
const catalogVersion = 2

// catalogSchema holds where each record stands, and what is searched for.
const catalogSchema = `
CREATE TABLE progress (chain TEXT PRIMARY KEY, first INTEGER, segment INTEGER, offset INTEGER, next INTEGER, prev BLOB, moves INTEGER) WITHOUT ROWID;
CREATE INDEX progress_moves ON progress (chain) WHERE moves;
CREATE TABLE entry (chain TEXT, seq INTEGER, segment INTEGER, offset INTEGER, size INTEGER, time INTEGER,
	grp TEXT, session TEXT, kind TEXT, outcome TEXT, reason TEXT, capability TEXT, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE INDEX entry_time ON entry (time, chain, seq);
CREATE INDEX entry_session ON entry (session, time, chain, seq);
CREATE INDEX entry_kind ON entry (kind, time, chain, seq);
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

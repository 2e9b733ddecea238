package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/keyfile"
	"github.com/nacre-dev/nacre/audit/internal/rows"
	"github.com/nacre-dev/nacre/internal/canonical"
)

// The limits of a catalog's answers.
const (
	// DefaultPage and MaxPage are how many records one page of [Catalog.Find] has.
	DefaultPage = 1000
	MaxPage     = 100_000
)

// Catalog finds records by what they say. It is a file beside the chains that can be made anew from
// them at any time, and never evidence. What Find returns is read from the chains themselves, and
// Verify does not know that the catalog exists.
type Catalog struct {
	root, path string
	db         *sql.DB
}

// CatalogPath is where the catalog of a root stands.
func CatalogPath(root string) string { return filepath.Clean(root) + "-index.sqlite" }

// OpenCatalog opens the catalog of all chains in root and brings it up to date. It looks at the
// chains that are open, and at those of which the index told since the last time. One that is
// missing, damaged, of another version or at odds with the chains is made anew. It fails with
// ErrTampered where a chain cannot be read.
func OpenCatalog(ctx context.Context, root string) (*Catalog, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if err := keyfile.Private(root, info); err != nil {
		return nil, err
	}
	c := &Catalog{root: root, path: CatalogPath(root)}
	if err = c.open(ctx); err == nil {
		if err = c.update(ctx); err == nil {
			return c, nil
		}
	}
	if ctx.Err() != nil || errors.Is(err, ErrTampered) {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.rebuild(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the file.
func (c *Catalog) Close() error {
	if c.db == nil {
		return nil
	}
	return c.db.Close()
}

func (c *Catalog) rebuild(ctx context.Context) error {
	if err := c.Close(); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(c.path + suffix); err != nil && !isMissing(err) {
			return err
		}
	}
	if err := c.open(ctx); err != nil {
		return fmt.Errorf("catalog %s: %w", c.path, err)
	}
	return c.update(ctx)
}

func (c *Catalog) open(ctx context.Context) error {
	var err error
	if c.db, err = rows.Open(c.path, rows.Careless); err != nil {
		return err
	}
	return rows.PrepareCatalog(ctx, c.db)
}

// errStale means that the catalog does not fit the chains: it is made anew.
var errStale = errors.New("the catalog does not fit the chains")

// ErrQuery means that a query makes no sense.
var ErrQuery = errors.New("audit query is malformed")

// Query selects records. Empty members select all.
type Query struct {
	Session    nacre.SessionID
	Group      nacre.Group
	Kind       nacre.Kind
	Outcome    string
	Reason     string
	Capability nacre.CapabilityID
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
	// Limit is how many records at most; zero means DefaultPage.
	Limit int
	// After is where the page before this one ended: what Find returned.
	After string
	// Newest gives the newest records first.
	Newest bool
}

// Found is a record and the chain it stands in.
type Found struct {
	Chain string `json:"chain"`
	Entry
}

// Find returns the records that the query selects, by time, chain and number, the oldest first
// unless it says otherwise, and where the next page begins, empty after the last.
func (c *Catalog) Find(ctx context.Context, q Query) (page []Found, next string, err error) {
	where, args, err := q.where()
	if err != nil {
		return nil, "", err
	}
	if page, next, err = c.find(ctx, q, where, args); err == nil || errors.Is(err, ErrTampered) || ctx.Err() != nil {
		return page, next, err
	}
	if err := c.rebuild(ctx); err != nil {
		return nil, "", err
	}
	return c.find(ctx, q, where, args)
}

func (q *Query) where() (string, []any, error) {
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return "", nil, fmt.Errorf("%w: limit %d: 1 to %d", ErrQuery, q.Limit, MaxPage)
	}
	var terms []string
	var args []any
	for _, term := range [][2]string{
		{"session", string(q.Session)}, {"grp", string(q.Group)}, {"kind", string(q.Kind)}, {"outcome", q.Outcome},
		{"reason", q.Reason}, {"capability", string(q.Capability)},
	} {
		if term[1] != "" {
			terms, args = append(terms, term[0]+" = ?"), append(args, term[1])
		}
	}
	if !q.Since.IsZero() {
		terms, args = append(terms, "time >= ?"), append(args, rows.Nanos(q.Since))
	}
	if !q.Until.IsZero() {
		terms, args = append(terms, "time < ?"), append(args, rows.Nanos(q.Until))
	}
	if q.After != "" {
		at, chain, seq, ok := rows.ParseCursor(q.After)
		if !ok {
			return "", nil, fmt.Errorf("%w: %.100q is not where a page ended: give what the page before said", ErrQuery, q.After)
		}
		terms, args = append(terms, rows.Beyond(q.Newest)), append(args, at, chain, seq)
	}
	where := ""
	if len(terms) > 0 {
		where = " WHERE " + strings.Join(terms, " AND ")
	}
	return where, append(args, q.Limit+1), nil
}

func (c *Catalog) find(ctx context.Context, q Query, where string, args []any) ([]Found, string, error) {
	spots, err := rows.Spots(ctx, c.db, where, args, q.Newest)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(spots) > q.Limit {
		spots = spots[:q.Limit]
		last := spots[q.Limit-1]
		next = rows.Cursor(last.Time, last.Chain, last.Seq)
	}
	reader := spotReader{root: c.root}
	defer reader.close()
	page := make([]Found, 0, len(spots))
	for _, s := range spots {
		e, err := reader.read(s)
		if err == nil && !q.selects(e) {
			err = errStale
		}
		if err != nil {
			return nil, "", err
		}
		page = append(page, Found{s.Chain, e})
	}
	return page, next, nil
}

// selects asks the record itself, whatever the catalog said.
func (q *Query) selects(e Entry) bool {
	return (q.Session == "" || q.Session == e.Session) && (q.Group == "" || q.Group == e.Group) && (q.Kind == "" || q.Kind == e.Kind) &&
		(q.Outcome == "" || q.Outcome == e.Outcome) && (q.Reason == "" || q.Reason == e.Reason) &&
		(q.Capability == "" || string(q.Capability) == capabilityOf(e)) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until))
}

// capabilityOf is what a record says it is about.
func capabilityOf(e Entry) string { return canonical.Text(e.Detail, "capability") }

package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/store/tables"
)

const (
	// format is the first thing that a copy says of itself.
	format = "nacre-store-1"
	// maxHead bounds the lines that are ours, and not PostgreSQL's rows.
	maxHead = 64 << 10
	// end ends the rows of a table: no row of PostgreSQL's is like it.
	end = `\.`
)

// Why a copy is not put in.
var (
	ErrNoCopy   = errors.New("the file is no whole copy of a store")
	ErrNotEmpty = errors.New("the database holds tables already: name a new, empty one in the variable of [store] url_env")
)

// Copy is what a copy says of itself. Its file is a line of this, and then for each table a line
// [table], rows as COPY writes them and a line of a backslash and a dot. Last comes a line [seal]
// over all before.
type Copy struct {
	Format       string         `json:"format"`
	Installation string         `json:"installation"`
	Made         time.Time      `json:"made"`
	Versions     map[string]int `json:"versions"`
	// Rows are how many there are of all tables.
	Rows int64 `json:"-"`
}

type table struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

type seal struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// Backup writes a copy of the store as it is at one moment into a new file, mode 0600, while
// nodes go on. An error leaves no file.
func Backup(ctx context.Context, inst *installation.Installation, path string) (c Copy, err error) {
	s, err := of(inst)
	if err != nil {
		return c, err
	}
	state, err := s.Look(ctx)
	if err != nil {
		return c, err
	}
	if err := newer(versionsOf(state)); err != nil {
		return c, err
	}
	if len(state.Versions) == 0 {
		return c, errors.New("[store]: nothing is in the database yet: there is nothing to copy")
	}
	pool, err := s.Connected(ctx)
	if err != nil {
		return c, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // it is not whole
		}
	}()
	w := &writer{hash: sha256.New()}
	w.to = bufio.NewWriter(io.MultiWriter(f, w.hash))
	c = Copy{Format: format, Installation: state.Owner, Made: inst.Options.Now().UTC()}
	err = database.Snapshot(ctx, pool, func(tx pgx.Tx) error { return w.all(ctx, tx, &c) })
	if err == nil {
		err = w.to.Flush()
	}
	if err == nil {
		line, _ := json.Marshal(seal{c.Rows, hex.EncodeToString(w.hash.Sum(nil))}) // text and a number
		_, err = f.Write(append(line, '\n'))
	}
	return c, errors.Join(err, f.Sync())
}

// versionsOf are the versions of all rooms' tables.
func versionsOf(s database.State) map[string]int {
	all := map[string]int{}
	for room, v := range s.Versions {
		all[room] = v.Tables
	}
	return all
}

// newer refuses tables that this nacre does not know.
func newer(have map[string]int) error {
	for name, version := range have {
		at := slices.IndexFunc(tables.Rooms(), func(r tables.Room) bool { return r.Name == name })
		if at < 0 || version < 0 || version > len(tables.Rooms()[at].Migrations) {
			return fmt.Errorf("[store]: %w (the tables of %.64q are at version %d)", database.ErrNewer, name, version)
		}
	}
	return nil
}

type writer struct {
	to   *bufio.Writer
	hash hash.Hash
}

func (w *writer) line(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.to.Write(append(line, '\n'))
	}
	return err
}

// all writes the head and each table. Tables are in the order in which they were made, so that
// each comes after those that it refers to.
func (w *writer) all(ctx context.Context, tx pgx.Tx, c *Copy) error {
	c.Versions = map[string]int{}
	rows, err := tx.Query(ctx, `SELECT room, version FROM nacre_version`)
	if err != nil {
		return err
	}
	var room string
	var version int
	if _, err := pgx.ForEachRow(rows, []any{&room, &version}, func() error { c.Versions[room] = version; return nil }); err != nil {
		return err
	}
	if err := errors.Join(newer(c.Versions), w.line(c)); err != nil {
		return err
	}
	list, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := w.line(t); err != nil {
			return err
		}
		done, err := tx.Conn().PgConn().CopyTo(ctx, w.to, "COPY "+t.named()+" TO STDOUT")
		if err != nil {
			return err
		}
		c.Rows += done.RowsAffected()
		if _, err := w.to.WriteString(end + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// tablesOf are all that hold what rooms keep.
func tablesOf(ctx context.Context, tx pgx.Tx) ([]table, error) {
	rows, err := tx.Query(ctx, `SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(current_schema()) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
			AND c.relname NOT IN ('nacre_installation', 'nacre_version')
		GROUP BY c.oid, c.relname ORDER BY c.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[table])
}

// named is a table with its columns, as COPY is told.
func (t table) named() string {
	names := make([]string, 0, len(t.Columns))
	for _, c := range t.Columns {
		names = append(names, pgx.Identifier{c}.Sanitize())
	}
	return pgx.Identifier{t.Table}.Sanitize() + " (" + strings.Join(names, ", ") + ")"
}

// CheckCopy reads a copy to its end and holds it against its seal.
func CheckCopy(path string) (c Copy, err error) {
	f, err := disk.OpenRegular(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return checkCopy(f)
}

func checkCopy(from io.Reader) (c Copy, err error) {
	sum := sha256.New()
	r := bufio.NewReaderSize(from, maxHead)
	var held []byte // the last piece, which is not of what is sealed where it is the seal
	whole, starts := false, true
	for n := 0; ; n++ {
		part, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(part) == 0 {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a row may be longer than the buffer
			return c, fmt.Errorf("%w: it is cut off", ErrNoCopy)
		}
		if n == 0 && (strictly(part, &c) != nil || c.Format != format) {
			return c, fmt.Errorf("%w: it does not begin as one", ErrNoCopy)
		}
		sum.Write(held)
		held = append(held[:0], part...)
		whole, starts = starts && err == nil, err == nil
	}
	var sealed seal
	if !whole || strictly(held, &sealed) != nil || sealed.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		return c, fmt.Errorf("%w: it is cut off, or was changed", ErrNoCopy)
	}
	c.Rows = sealed.Rows
	return c, nil
}

func strictly(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Restore puts a copy into the store's database, which must be empty, whole or not at all, and
// brings its tables forward. The nodes of before are over in it, and what was
// revoked since the copy has to be revoked again.
func Restore(ctx context.Context, inst *installation.Installation, path string) (c Copy, err error) {
	s, err := of(inst)
	if err != nil {
		return c, err
	}
	f, err := disk.OpenRegular(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if c, err = checkCopy(f); err != nil {
		return c, err
	}
	if c.Installation != s.Installation() {
		return c, fmt.Errorf("the copy is of installation %.64q, and this one is %q: nothing was done", c.Installation, s.Installation())
	}
	if err := newer(c.Versions); err != nil {
		return c, err
	}
	pool, err := s.Connected(ctx)
	if err != nil {
		return c, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return c, err
	}
	return c, database.Migration(ctx, pool, func(tx pgx.Tx) error { return c.put(ctx, tx, bufio.NewReaderSize(f, maxHead)) })
}

func (c Copy) put(ctx context.Context, tx pgx.Tx, from *bufio.Reader) error {
	if there, err := tablesOf(ctx, tx); err != nil || len(there) > 0 {
		return errors.Join(err, ErrNotEmpty)
	}
	for _, r := range tables.Rooms() {
		if err := database.Forward(ctx, tx, r.Name, r.Migrations[:c.Versions[r.Name]]); err != nil {
			return err
		}
	}
	known, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	if err := triggers(ctx, tx, known, "DISABLE"); err != nil { // what they would write is in the copy
		return err
	}
	if _, err := from.ReadSlice('\n'); err != nil { // the head, which was read
		return err
	}
	for {
		line, err := from.ReadSlice('\n')
		var t table
		if err != nil || strictly(line, &t) != nil {
			break // the seal, which was checked
		}
		if !slices.ContainsFunc(known, func(k table) bool { return k.Table == t.Table && slices.Equal(k.Columns, t.Columns) }) {
			return fmt.Errorf("%w: the table %.64q is none of that version", ErrNoCopy, t.Table)
		}
		if _, err := tx.Conn().PgConn().CopyFrom(ctx, &rowsOf{from: from}, "COPY "+t.named()+" FROM STDIN"); err != nil {
			return err
		}
	}
	if err := triggers(ctx, tx, known, "ENABLE"); err != nil {
		return err
	}
	return c.forward(ctx, tx)
}

// triggers turns the rooms' own ones of some tables on or off.
func triggers(ctx context.Context, tx pgx.Tx, of []table, how string) error {
	for _, t := range of {
		if _, err := tx.Exec(ctx, "ALTER TABLE "+pgx.Identifier{t.Table}.Sanitize()+" "+how+" TRIGGER USER"); err != nil {
			return err
		}
	}
	return nil
}

// forward brings the tables forward, and ends what nodes held.
func (c Copy) forward(ctx context.Context, tx pgx.Tx) error {
	for _, r := range tables.Rooms() {
		if err := database.Forward(ctx, tx, r.Name, r.Migrations); err != nil {
			return err
		}
	}
	if err := numbered(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE nacre_node SET epoch = epoch + 1, until = '-infinity', incarnation = gen_random_uuid()`)
	return err
}

// numbered lets the numbers of new rows go on after those that were put in.
func numbered(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT format('SELECT setval(pg_get_serial_sequence(%L, %L), max(%I)) FROM %I', table_name, column_name, column_name, table_name)
		FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'`)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf reads the rows of one table.
type rowsOf struct {
	from *bufio.Reader
	left []byte
	// within says that a row goes on, and over that the last one was read.
	within, over bool
}

// Read implements [io.Reader].
func (r *rowsOf) Read(into []byte) (int, error) {
	if len(r.left) == 0 && !r.over {
		part, err := r.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, io.ErrUnexpectedEOF
		}
		r.over = !r.within && string(part) == end+"\n"
		r.within = err != nil
		if r.left = part; r.over {
			r.left = nil
		}
	}
	if r.over {
		return 0, io.EOF
	}
	n := copy(into, r.left)
	r.left = r.left[n:]
	return n, nil
}

package sqlitefile

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// M-57: of a page only bytes that nothing is stored in change, whatever it holds.
func FuzzUnused(f *testing.F) {
	for _, page := range pagesOf(f) {
		f.Add(page, 0, 0)
		f.Add(page, fileHeader, 8)
	}
	f.Fuzz(func(t *testing.T, page []byte, header, reserved int) {
		if header < 0 || reserved < 0 || header > fileHeader || reserved > 255 || len(page) > maxPageBytes {
			return
		}
		was := bytes.Clone(page)
		changed, known := unused(page, header, reserved)
		if !known && changed != !bytes.Equal(was, page) || known && changed == bytes.Equal(was, page) {
			t.Errorf("changed %v, known %v", changed, known)
		}
		if again, _ := unused(page, header, reserved); known && again {
			t.Error("it changed twice")
		}
	})
}

// M-57: a file with clean pages is whole, has what it had, and has nothing left to clean.
func TestAWipedFileIsWhole(t *testing.T) {
	f := filled(t, filepath.Join(t.TempDir(), "test.sqlite"))
	conn, err := f.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it only read
	is := func() (content string, dirty int) {
		t.Helper()
		pages, err := dirtyPages(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.QueryRowContext(t.Context(), `SELECT integrity_check || (SELECT group_concat(id || word) FROM words) FROM pragma_integrity_check`).Scan(&content)
		if err != nil {
			t.Fatal(err)
		}
		return content, len(pages)
	}
	was, before := is()
	if before == 0 || !strings.HasPrefix(was, "ok") {
		t.Fatalf("proves nothing: %d pages, %.80s", before, was)
	}
	if err := Wipe(t.Context(), f.DB(), 0); err != nil {
		t.Fatal(err)
	}
	if have, after := is(); have != was || after != 0 {
		t.Errorf("have %d pages, %.80s", after, have)
	}
}

// filled is a file of many pages, of whose rows a part was deleted.
func filled(tb testing.TB, path string) *File {
	tb.Helper()
	f, err := Open(tb.Context(), path, Format{Name: "test", Application: 7, Tables: []string{"words"}, Pragmas: []string{"secure_delete(ON)"},
		Migrations: []string{`CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT); CREATE INDEX by_word ON words(word)`}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	err = f.Write(tb.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.WithoutCancel(tb.Context()), `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 799)
			INSERT INTO words(id, word) SELECT (i * 7919) % 1009, printf('%04d', i) || substr(hex(zeroblob(400)), 1, i / 2) FROM n;
			DELETE FROM words WHERE word < '0200' OR id % 5 = 0`)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func pagesOf(tb testing.TB) (pages [][]byte) {
	tb.Helper()
	f := filled(tb, filepath.Join(tb.TempDir(), "test.sqlite"))
	rows, err := f.DB().Query(`SELECT data FROM sqlite_dbpage`)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }() // it only read
	for rows.Next() {
		var page []byte
		if err := rows.Scan(&page); err != nil {
			tb.Fatal(err)
		}
		pages = append(pages, page)
	}
	return pages
}

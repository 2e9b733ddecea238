package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/store"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// machine is one of an installation whose store is at an address.
func machine(t *testing.T, address, name string) *installation.Installation {
	t.Helper()
	r := registry.NewOn(registry.Paths{State: t.TempDir()}, name, func() string { return address })
	t.Cleanup(r.Store().Close)
	keys, err := audit.LoadKeys(r.Paths().Keys())
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := revocation.Open(r.Paths().Keys())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = revoked.Close() })
	return &installation.Installation{Registry: r, Keys: keys, Revoked: revoked, Options: installation.Options{Now: time.Now}}
}

// filled is a store in which each room that can has something, and a node is alive.
func filled(t *testing.T, address string) *installation.Installation {
	t.Helper()
	i := machine(t, address, "acme")
	if _, err := store.Migrate(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.Join(t.Context(), machine(t, address, "acme").Registry.Store(), "one", 10)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"text": "tab\t line\n slash\\ \\. end" + strings.Repeat("long ", 40_000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a1", "a2"} {
		if err := box.Keep(inbox.Message{ID: id, Session: "s1", Source: "box", Group: "main", Taken: time.Now(), Once: true, Payload: text}); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.On(i.Registry.Store(), nil).Revoke("", "a/\x00\\", time.Time{}); err != nil {
		t.Fatal(err)
	}
	return i
}

func rowsOf(t *testing.T, i *installation.Installation) map[string]int64 {
	t.Helper()
	r, err := store.Verify(t.Context(), i)
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("have %v, %v", r.Problems, err)
	}
	return r.Rows
}

// a copy of a store that is in use is put into an empty database whole: what it held is
// there byte for byte, and its nodes are over.
func TestACopyIsPutBackWhole(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	from := filled(t, server)
	path := filepath.Join(t.TempDir(), "copy")
	made, err := store.Backup(t.Context(), from, path)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := store.CheckCopy(path); err != nil || have.Rows != made.Rows || have.Rows < 4 {
		t.Errorf("have %+v, %v, want %+v", have, err, made)
	}
	if _, err := store.Backup(t.Context(), from, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there: have %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v, %v", info, err)
	}
	if _, err := store.Restore(t.Context(), from, path); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("into a store that is in use: have %v", err)
	}
	address := testpeer.Database(t, server, "second")
	if _, err := store.Restore(t.Context(), machine(t, address, "globex"), path); err == nil || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("into another installation's: have %v", err)
	}
	to := machine(t, address, "acme")
	if have, err := store.Restore(t.Context(), to, path); err != nil || have.Rows != made.Rows {
		t.Fatalf("have %+v, %v", have, err)
	}
	before, after := rowsOf(t, from), rowsOf(t, to)
	for table, rows := range before {
		if after[table] != rows {
			t.Errorf("%s: have %d rows, want %d", table, after[table], rows)
		}
	}
	if was, is := messages(t, server), messages(t, address); !slices.EqualFunc(was, is, bytes.Equal) || len(is) != 2 {
		t.Error("a message is another one")
	}
	box, err := inbox.Join(t.Context(), to.Registry.Store(), "two", 10)
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := box.TakeOver(nil); err != nil || len(taken) != 2 {
		t.Errorf("what a node of before had: have %d messages, %v", len(taken), err)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

func messages(t *testing.T, address string) (all [][]byte) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.Query(t.Context(), `SELECT message FROM nacre_message ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var m []byte
		if err := rows.Scan(&m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// a copy of which a byte is another, or that is cut off anywhere, is refused, and
// nothing is put in.
func TestADamagedCopyIsRefused(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	path := filepath.Join(t.TempDir(), "copy")
	if _, err := store.Backup(t.Context(), filled(t, server), path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	address := testpeer.Database(t, server, "second")
	to := machine(t, address, "acme")
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": nil, "no copy": []byte("{}\n"), "a flipped bit": flipped, "cut in a row": whole[:len(whole)/2],
		"without its end": whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1], "cut in its end": whole[:len(whole)-5],
		"with more behind": append(bytes.Clone(whole), "more\n"...), "of a later format": bytes.Replace(whole, []byte("nacre-store-1"), []byte("nacre-store-2"), 1),
	} {
		spoilt := filepath.Join(t.TempDir(), "spoilt")
		if err := os.WriteFile(spoilt, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(t.Context(), to, spoilt); !errors.Is(err, store.ErrNoCopy) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if _, err := store.Restore(t.Context(), to, path); err != nil {
		t.Errorf("after what was refused: have %v", err)
	}
}

// tables of before are told of and brought forward, and those of a newer nacre are told of and not
// touched. A table that is gone, a message that cannot be read and a server that takes no writes are told
// of, too.
func TestWhatDoesNotHoldIsToldOf(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	empty := machine(t, testpeer.Database(t, server, "empty"), "acme")
	if r, err := store.Verify(t.Context(), empty); err != nil || len(r.Problems) == 0 || !strings.Contains(r.Problems[0], "nacre store migrate") {
		t.Errorf("an empty database: have %v, %v", r.Problems, err)
	}
	if _, err := store.Backup(t.Context(), empty, filepath.Join(t.TempDir(), "copy")); err == nil {
		t.Error("nothing was copied")
	}
	if _, err := store.Migrate(t.Context(), &installation.Installation{Registry: registry.New(registry.Paths{})}); !errors.Is(err, store.ErrNone) {
		t.Errorf("without a store: have %v", err)
	}
	i := filled(t, server)
	pool, err := pgxpool.New(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	// what a newer nacre only added to is in order, and is not copied by one that does not know it.
	if _, err := pool.Exec(t.Context(), `UPDATE nacre_version SET version = 99 WHERE room = 'ledger'`); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Verify(t.Context(), i); err != nil || len(r.Problems) > 0 {
		t.Errorf("tables that were only added to: have %v, %v", r.Problems, err)
	}
	if _, err := store.Backup(t.Context(), i, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, database.ErrNewer) {
		t.Errorf("a copy of tables that were added to: have %v", err)
	}
	// K-12: what is revoked here, and whose row is gone.
	for _, principal := range []string{"gone\x00", "a/\x00\\"} {
		if err := i.Revoked.Keep("", principal, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := store.Verify(t.Context(), i); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], `"gone\x00" is revoked on this machine and not in the store`) {
		t.Errorf("what somebody let in again: have %q, %v", r.Problems, err)
	}
	for statement, want := range map[string]string{
		`UPDATE nacre_message SET aside = true WHERE id = 'a1'`:                      "set aside",
		`ALTER TABLE nacre_revocation RENAME TO gone`:                                "is gone",
		`UPDATE nacre_version SET version = 99, oldest = 99 WHERE room = 'schedule'`: "upgrade this machine",
		`INSERT INTO nacre_version VALUES ('later', 1)`:                              "newer nacre's",
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		r, err := store.Verify(t.Context(), i)
		if err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), want) {
			t.Errorf("%s: have %v, %v", statement, r.Problems, err)
		}
		if findings := store.Check(t.Context(), i); strings.Contains(want, "newer") && findings[0].Status != "fail" {
			t.Errorf("doctor: have %v", findings)
		}
	}
	if _, err := store.Migrate(t.Context(), i); !errors.Is(err, database.ErrNewer) {
		t.Errorf("a newer nacre's: have %v", err)
	}
	if _, err := store.Backup(t.Context(), i, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, database.ErrNewer) {
		t.Errorf("a copy of a newer nacre's: have %v", err)
	}
	for what, at := range map[string]*installation.Installation{
		"read-only": machine(t, server+"&default_transaction_read_only=on", "acme"), "another installation's": machine(t, server, "globex"),
		"away": machine(t, "postgres://nacre@/x?host=/nonexistent", "acme"), "without an address": machine(t, "", "acme"),
	} {
		if findings := store.Check(t.Context(), at); len(findings) == 0 || findings[0].Status != "fail" {
			t.Errorf("doctor, %s: have %v", what, findings)
		}
	}
	ahead := machine(t, testpeer.Database(t, server, "third"), "acme")
	if _, err := store.Migrate(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	ahead.Options.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if findings := store.Check(t.Context(), ahead); len(findings) != 3 || findings[0].Status != "warn" || findings[1].Status != "ok" || findings[2].Status != "ok" {
		t.Errorf("doctor, clocks an hour apart: have %v", findings)
	}
}

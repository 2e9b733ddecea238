package inbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// atOnce is how many messages a node has in hand.
const atOnce = 8

// written is how much a database has written into its log so far, in bytes.
func written(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return number(t, pool, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`)
}

// what messages cost on a database that flushes each commit, by number of nodes. Measured are how
// many a second are taken, begun and dealt with, how long one waits to be begun, and what is written
// for it. How long it takes to take over what waits is measured by how much it is. `make bench-cluster`
// prints the tables of docs/scale.md; here all of it is done at a small size.
func TestFigures(t *testing.T) {
	t.Parallel()
	each := testpeer.Size(20, 500)
	t.Log("\n| nodes | messages/s | begun after, median | p99 | log bytes a message |\n|---|---|---|---|---|")
	for nodes := 1; nodes <= 3; nodes++ {
		address := testpeer.Postgres(t, "fsync=on")
		pool := direct(t, address)
		boxes := make([]*inbox.Box, nodes)
		for n := range boxes {
			var err error
			if boxes[n], err = inbox.Join(t.Context(), storeAt(t, address), fmt.Sprintf("n%d", n), each); err != nil {
				t.Fatal(err)
			}
		}
		before, began := written(t, pool), time.Now()
		waits := work(t, boxes, each)
		took, after := time.Since(began), written(t, pool)
		slices.Sort(waits)
		all := nodes * each
		if left := number(t, pool, `SELECT count(*) FROM nacre_message`); left != 0 || len(waits) != all {
			t.Errorf("%d of %d were begun, and %d are left", len(waits), all, left)
		}
		t.Logf("\n| %d | %.0f | %.1f ms | %.1f ms | %d |", nodes, float64(all)/took.Seconds(), millis(waits[all/2]), millis(waits[all*99/100]), (after-before)/all)
		for _, b := range boxes {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Log("\n| waiting messages | taken over in |\n|---|---|")
	for _, waiting := range []int{testpeer.Size(100, 1_000), testpeer.Size(300, 10_000), testpeer.Size(1_000, 100_000)} {
		address := testpeer.Postgres(t)
		pool := direct(t, address)
		heir := joined(t, address, "heir")
		_, err := pool.Exec(t.Context(), `INSERT INTO nacre_message (id, node, epoch, begun, taken, message)
			SELECT 'w' || n, 'gone', 1, 0, now(), convert_to(format('{"id":"w%s","session":"k%s","source":"box","group":"main","taken":"2026-11-21T12:00:00Z","begun":0,"payload":{}}', n, n), 'UTF8')
			FROM generate_series(1, $1::int) n`, waiting)
		if err != nil {
			t.Fatal(err)
		}
		began, taken := time.Now(), 0
		for taken < waiting {
			list, err := heir.TakeOver(dead)
			if err != nil {
				t.Fatal(err)
			}
			taken += len(list)
		}
		t.Logf("\n| %d | %.2f s |", waiting, time.Since(began).Seconds())
		if taken != waiting {
			t.Errorf("%d of %d were taken over", taken, waiting)
		}
		if err := heir.Close(); err != nil {
			t.Error(err)
		}
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// work takes so many messages at each node, begins with each, and deals with it. It gives how long
// each waited, from before it was written down until it was begun.
func work(t *testing.T, boxes []*inbox.Box, each int) (waits []time.Duration) {
	t.Helper()
	var (
		mu   sync.Mutex
		busy sync.WaitGroup
	)
	for n, box := range boxes {
		for hand := range atOnce {
			busy.Go(func() {
				for i := hand; i < each; i += atOnce {
					began := time.Now()
					m := message(n*each + i)
					if err := box.Keep(m); err != nil {
						t.Error(err)
						return
					}
					if _, err := box.Begin(m.ID); err != nil {
						t.Error(err)
						return
					}
					wait := time.Since(began)
					if err := box.Remove(m.ID); err != nil {
						t.Error(err)
					}
					mu.Lock()
					waits = append(waits, wait)
					mu.Unlock()
				}
			})
		}
	}
	busy.Wait()
	return waits
}

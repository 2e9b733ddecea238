package audit

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
)

// MemoryLog is a recorder that keeps its records in this process only, for
// embedders and tests that choose so. Its zero value refuses every record.
type MemoryLog struct {
	mu    sync.Mutex
	limit int
	// records is a ring once it is full; next is then where the oldest stands.
	records []nacre.Record
	next    int
	evicted int
	// rooms are where records are checked, of *[]byte.
	rooms sync.Pool
}

// Memory keeps the last n records; with n of 0 or less it refuses them all.
func Memory(n int) *MemoryLog { return &MemoryLog{limit: n} }

// Append implements [nacre.Recorder]. It refuses what a chain would refuse.
func (m *MemoryLog) Append(ctx context.Context, r nacre.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.check(r); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit <= 0 {
		return errors.New("audit memory has no room: make it with audit.Memory(n)")
	}
	if len(m.records) < m.limit {
		m.records = append(m.records, r)
		return nil
	}
	m.records[m.next] = r
	m.next = (m.next + 1) % m.limit
	m.evicted++
	return nil
}

func (m *MemoryLog) check(r nacre.Record) error {
	room, _ := m.rooms.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	_, err := checked(r)
	if err == nil {
		var detail []byte
		if detail, err = appendDetail((*room)[:0], r.Detail); cap(detail) <= 2*MaxText {
			*room = detail
		}
	}
	m.rooms.Put(room)
	return err
}

// Commit is Append: nothing here is durable.
func (m *MemoryLog) Commit(ctx context.Context, r nacre.Record) error { return m.Append(ctx, r) }

// Records are those kept, the oldest first.
func (m *MemoryLog) Records() []nacre.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Concat(m.records[m.next:], m.records[:m.next])
}

// Evicted counts the records that made room for others.
func (m *MemoryLog) Evicted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted
}

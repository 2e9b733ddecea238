package inbox

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/node"
)

const (
	// TurnTopic rings where a turn is over that another node may wait for.
	TurnTopic = "turn"
	// asking bounds a question for a turn.
	asking = 5 * time.Second
)

// Turn is what a node asks for before it begins: a message's, or that of a tick.
type Turn struct {
	ID    string
	Group nacre.Group
	// Conversation is the one that goes on; empty where one begins anew.
	Conversation string
}

// Turns say which node begins with what, and when. A group has so many agents at once over
// all nodes, and a conversation has one. The messages of a conversation begin in the order in which
// they were taken, and who has waited longest is first. A turn is a node's in one epoch of its
// lease, and is over with it. Nil Turns, of a box that no nodes share, give every turn. Safe for
// concurrent use.
type Turns struct {
	store *database.Store
	node  *node.Node
	limit int

	mu sync.Mutex
	// ended are turns that are over, or that nobody knows of whether they were given, of which
	// the store was not told yet.
	ended map[string]bool
}

// turnTables keep the place of messages, by the clock of the database, and whose turn it is. A
// nacre that knows nothing of turns writes messages without a group, for which nobody waits.
func turnTables() []string {
	return []string{
		`ALTER TABLE nacre_message ADD group_name text NOT NULL DEFAULT '', ADD conversation text NOT NULL DEFAULT '',
			ADD kept timestamptz NOT NULL DEFAULT clock_timestamp()`,
		`CREATE INDEX nacre_message_kept ON nacre_message (group_name, kept, id)`,
		`CREATE INDEX nacre_message_conversation ON nacre_message (conversation, kept, id)`,
		`CREATE TABLE nacre_turn (id text PRIMARY KEY, node text NOT NULL, epoch bigint NOT NULL, group_name text NOT NULL,
			conversation text NOT NULL, kept timestamptz NOT NULL, began boolean NOT NULL)`,
		`CREATE INDEX nacre_turn_group ON nacre_turn (group_name)`,
	}
}

// inStore names a conversation of a group as the store does, whatever a sender is called.
func inStore(group nacre.Group, conversation string) string {
	if conversation == "" {
		return ""
	}
	return Name("conversation", string(group), conversation)
}

// Turns are those of the nodes that share this box, of which limit agents of one group run at
// once; nil for a box in a folder.
func (b *Box) Turns(limit int) *Turns {
	s, ok := b.place.(*shared)
	if !ok {
		return nil
	}
	return &Turns{store: s.store, node: s.node, limit: limit, ended: map[string]bool{}}
}

const (
	// overTurns ends turns of nodes that are over.
	overTurns = `DELETE FROM nacre_turn t WHERE group_name = $1
		AND NOT EXISTS (SELECT FROM nacre_node n WHERE n.name = t.node AND n.epoch = t.epoch)`
	// waitTurn gives a place to what has none: a message has had its own since it was taken.
	waitTurn = `INSERT INTO nacre_turn (id, node, epoch, group_name, conversation, kept, began)
		SELECT $1::text, $2::text, $3::bigint, $4::text, $5::text, coalesce((SELECT kept FROM nacre_message WHERE id = $1), clock_timestamp()), false ON CONFLICT (id) DO NOTHING`
	// beginTurn begins where the conversation rests and none of its messages comes before, and
	// where there is room beside those that run and those before it that could begin, too.
	beginTurn = `UPDATE nacre_turn me SET began = true WHERE id = $1 AND node = $2 AND epoch = $3 AND (began
		OR NOT EXISTS (SELECT FROM nacre_turn t WHERE t.began AND t.group_name = me.group_name AND t.conversation = me.conversation AND me.conversation <> '')
		AND NOT EXISTS (SELECT FROM nacre_message m WHERE m.conversation = me.conversation AND me.conversation <> ''
			AND NOT m.aside AND m.begun < $5 AND (m.kept, m.id) < (me.kept, me.id))
		AND $4::bigint > (SELECT count(*) FROM nacre_turn t WHERE t.began AND t.group_name = me.group_name)
			+ (SELECT count(*) FROM (SELECT FROM (
					SELECT id, conversation, kept FROM nacre_message WHERE group_name = me.group_name AND NOT aside AND begun < $5
					UNION ALL SELECT id, conversation, kept FROM nacre_turn t
						WHERE group_name = me.group_name AND NOT began AND NOT EXISTS (SELECT FROM nacre_message m WHERE m.id = t.id)) w
				WHERE (w.kept, w.id) < (me.kept, me.id)
					AND NOT EXISTS (SELECT FROM nacre_turn t WHERE t.began AND t.group_name = me.group_name
						AND (t.id = w.id OR t.conversation = w.conversation AND w.conversation <> ''))
					AND NOT EXISTS (SELECT FROM nacre_message e WHERE e.conversation = w.conversation AND w.conversation <> ''
						AND NOT e.aside AND e.begun < $5 AND (e.kept, e.id) < (w.kept, w.id))
				LIMIT $4::bigint) before))`
	// endTurn ends a turn of this node's, and wakes others that wait.
	endTurn = `WITH gone AS (DELETE FROM nacre_turn WHERE id = $1 AND node = $2 AND epoch = $3 RETURNING group_name)
		SELECT pg_notify('nacre', '` + TurnTopic + `') FROM gone WHERE EXISTS (
			SELECT FROM nacre_turn t WHERE t.group_name = gone.group_name AND NOT t.began AND t.node <> $2)`
)

// Take asks for a turn. Where it is not given, what asked waits: its place is kept, and it
// asks again when [TurnTopic] rings and now and then. A node that is over gets none.
func (t *Turns) Take(ctx context.Context, turn Turn) (given bool, err error) {
	if t == nil {
		return true, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	delete(t.ended, turn.ID)
	err = t.store.Write(ctx, t.node.Pool(), lockOf(turn.Group), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, overTurns, string(turn.Group)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, waitTurn, turn.ID, t.node.Name, t.node.Epoch, string(turn.Group), inStore(turn.Group, turn.Conversation)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, beginTurn, turn.ID, t.node.Name, t.node.Epoch, t.limit, maxBegun)
		given = tag.RowsAffected() == 1
		return err
	})
	if err != nil { // it may have been given all the same
		t.ended[turn.ID] = true
		return false, err
	}
	return given, nil
}

// End gives a turn back. Where the store does not answer, [Turns.Settle] does it later.
func (t *Turns) End(ctx context.Context, id string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended[id] = true
	_ = t.settle(ctx) // Settle is told
}

// Settle tells the store which turns are over, as far as it was not told.
func (t *Turns) Settle(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settle(ctx)
}

// settle is called with mu held.
func (t *Turns) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	for id := range t.ended {
		if _, err := t.node.Pool().Exec(ctx, endTurn, id, t.node.Name, t.node.Epoch); err != nil {
			return database.Classified(err)
		}
		delete(t.ended, id)
	}
	return nil
}

// lockOf is the advisory lock of whoever asks for a turn of a group.
func lockOf(group nacre.Group) int64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte("nacre turn " + string(group))) // a hash takes everything
	return int64(sum.Sum64()>>1) | 1
}

package memory

import (
	"context"
	"fmt"

	"github.com/nacre-dev/nacre"
)

// waiting are entries of a group, now, that the operator has neither vouched for nor declined, of those that
// sessions wrote which had listened to no outsider (M-50b). [Store.Trust] ends the wait of
// one, either way.
const waiting = `e.group_name = ? AND e.trust = 'untrusted' AND e.label = 'trusted' AND e.superseded_by IS NULL AND (e.expires_at IS NULL OR e.expires_at > ?)
	AND instr(e.tags, '"working:') = 0`

// Waiting is how many entries wait for a review, and how many of them a session wrote.
func Waiting(ctx context.Context, s *Store, session nacre.SessionID) (all, its int, err error) {
	err = s.at.Reader().QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CASE WHEN e.session_id = ? THEN 1 ELSE 0 END), 0) FROM memory_entries e INDEXED BY idx_memory_review WHERE `+waiting,
		s.machine.named(session), string(s.group), stamp(s.now())).Scan(&all, &its)
	return all, its, s.at.Classified(err)
}

// OfferReview tells the operator of what a session has stored that waits for them. That
// it cannot be counted is no reason for anything to end.
func OfferReview(ctx context.Context, s *Store, session nacre.SessionID, tell func(nacre.Step)) {
	all, its, err := Waiting(ctx, s, session)
	if err != nil || its == 0 {
		return
	}
	text := fmt.Sprintf("%d of %d to review: nacre memory review --group %s", its, all, s.group)
	tell(nacre.Step{Kind: nacre.StepStage, Name: "review", Text: text})
}

package memory

import "context"

// SearchStored is the search that the database does by itself, as in a group of more entries than
// are ranked in memory.
func SearchStored(ctx context.Context, s *Store, q Query) ([]Hit, error) {
	q.Limit = limit(q.Limit)
	return s.searchStored(ctx, q)
}

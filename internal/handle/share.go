package handle

import "container/list"

// share is what one session takes of the store.
type share struct {
	// entries are from the oldest.
	entries *list.List
	bytes   int
	// at is its place in the heap.
	at int
}

func (h *share) oldest() *kept { return h.entries.Front().Value.(*kept) }

// weight is the part of the store that the session takes: of its handles or of
// its bytes, whichever is more.
func (h *share) weight() float64 {
	return max(float64(h.entries.Len())/MaxHandles, float64(h.bytes)/MaxBytes)
}

// shares are a heap with the heaviest on top; of equal ones, that with the
// oldest handle.
type shares []*share

func (s shares) Len() int { return len(s) }

func (s shares) Less(i, j int) bool {
	a, b := s[i], s[j]
	if x, y := a.weight(), b.weight(); x != y {
		return x > y
	}
	if a.entries.Len() == 0 || b.entries.Len() == 0 {
		return a.entries.Len() > b.entries.Len()
	}
	return a.oldest().expires.Before(b.oldest().expires)
}

func (s shares) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i, j
}

// Push implements heap.Interface.
func (s *shares) Push(x any) {
	h := x.(*share)
	h.at = len(*s)
	*s = append(*s, h)
}

// Pop implements heap.Interface.
func (s *shares) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return h
}

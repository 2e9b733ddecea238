package door

import "sync"

// maxKept is the largest buffer that is kept for the next answer, in bytes.
const maxKept = 64 << 10

// buffers are memory for answers on their way out, used again.
type buffers struct{ pool sync.Pool }

// take returns a buffer with room for size bytes; what it holds is of no meaning.
func (p *buffers) take(size int) *[]byte {
	b, ok := p.pool.Get().(*[]byte)
	if !ok || cap(*b) < size {
		fresh := make([]byte, 0, size)
		b = &fresh
	}
	return b
}

func (p *buffers) give(b *[]byte) {
	if cap(*b) <= maxKept {
		p.pool.Put(b)
	}
}

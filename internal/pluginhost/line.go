package pluginhost

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of lines that are too long to be read whole.
const (
	maxSkipped = 256 << 20 // bytes beyond the limit, after which the process is ended
	keptEnd    = 256       // bytes of a line's end, where the id may be
)

var errEndless = errors.New("too much in lines that are too long")

// readLine returns a line without its end. Of one longer than limit it returns the first bytes and
// the last, and whole is false. The rest is never kept and is taken from budget, which it must not
// exceed.
func readLine(r *bufio.Reader, limit int, budget *int) (line []byte, whole bool, err error) {
	var end []byte
	for {
		part, err := r.ReadSlice('\n')
		room := min(limit-len(line), len(part))
		line = append(line, part[:room]...)
		if rest := part[room:]; len(rest) > 0 {
			end = lastBytes(append(end, rest...))
			*budget -= len(rest)
		}
		switch {
		case err == nil && end == nil:
			return line[:len(line)-1], true, nil
		case err == nil:
			return append(line, end...), false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		case *budget < 0:
			return nil, false, errEndless
		}
	}
}

func lastBytes(b []byte) []byte {
	if len(b) > keptEnd {
		return append([]byte(nil), b[len(b)-keptEnd:]...)
	}
	return b
}

// parseLine reads one JSON-RPC message. With an error comes what could be
// read before it, so that an answer can still be addressed.
func parseLine(line []byte) (m plugin.Message, err error) {
	members, err := wire.Object(line, wire.Limits{Message: len(line), String: plugin.MaxResult, CaseSensitive: true})
	for _, member := range members {
		switch member.Key {
		case "id":
			m.ID = member.Value
		case "method":
			m.Method, _ = wire.Text(member.Value) // "" is no method
		case "params":
			m.Params = member.Value
		case "result":
			m.Result = member.Value
		case "error":
			if string(member.Value) != "null" && json.Unmarshal(member.Value, &m.Error) != nil {
				m.Error = &plugin.RPCError{}
			}
		}
	}
	if err != nil {
		return m, errors.Join(errInvalid, err)
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		err = errInvalid
	}
	return m, err
}

var endID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"id"\s*:\s*(\d{1,18})\s*}\s*$`) })

// idAtEnd finds the id of an answer that names it last. A handler that makes
// one up answers a request of its own wrongly, and nothing else.
func idAtEnd(line []byte) json.RawMessage {
	if m := endID().FindSubmatch(line[max(0, len(line)-keptEnd):]); m != nil {
		return json.RawMessage(m[1])
	}
	return nil
}

// tail keeps the last bytes of standard error.
type tail struct {
	mu   sync.Mutex
	kept []byte
	// unread is how many of them nobody has taken, more is told of new ones.
	unread int
	more   chan struct{}
}

func newTail() *tail { return &tail{more: make(chan struct{}, 1)} }

// take gives what was said since it was taken last, bounded as all
// of it is. Where there is nothing it waits a little: a handler says why before it
// answers, but on another pipe.
func (t *tail) take(wait time.Duration) string {
	late := time.NewTimer(wait)
	defer late.Stop()
	for over := false; ; {
		t.mu.Lock()
		text := string(t.kept[len(t.kept)-min(t.unread, len(t.kept)):])
		t.unread = 0
		t.mu.Unlock()
		if text != "" || over {
			return text
		}
		select {
		case <-t.more:
		case <-late.C:
			over = true
		}
	}
}

func (t *tail) fill(r io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		t.mu.Lock()
		t.kept = append(t.kept, buf[:n]...)
		t.kept = t.kept[max(0, len(t.kept)-maxStderr):]
		t.unread += n
		t.mu.Unlock()
		select {
		case t.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

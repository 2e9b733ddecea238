//go:build linux

package agent

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/nacre-dev/nacre/internal/brain"
)

// dialect is one vendor's form of a conversation. It holds no state.
type dialect interface {
	// path is where a conversation is sent, below the base URL.
	path() string
	// sign adds the session's token, and what else every request says.
	sign(h http.Header, token string)
	// request is the conversation as a body that asks for a stream.
	request(c *conversation) ([]byte, error)
	// listen begins to read one answer.
	listen() listener
}

// listener puts an answer together out of the events of its stream.
type listener interface {
	// hear takes the data of one event. It keeps nothing of it.
	hear(data []byte) error
	// answer is what was heard, or why it is no whole answer.
	answer() (reply, error)
}

// fault is why a request had no answer.
type fault struct {
	class brain.Class
	text  string
	// again says that the same request may be answered later.
	again bool
	// long says that the conversation is too long for the model.
	long bool
	// wait is how many seconds the other side asks to be left alone, where hasWait.
	wait    int64
	hasWait bool
}

func (f *fault) Error() string { return f.text }

// cut is a stream that ended before its answer did.
func cut() error {
	return &fault{class: brain.ClassNetwork, text: "the answer was cut off", again: true}
}

// notUnderstood is an event that is none of the dialect's.
func notUnderstood(err error) error {
	return &fault{class: brain.ClassProtocol, text: "the answer is not understood: " + err.Error()}
}

// encode is JSON that keeps <, > and & as they are: they are much of what code is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// object is a JSON object.
type object = map[string]any

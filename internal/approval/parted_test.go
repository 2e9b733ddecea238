package approval_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// a row that anybody may have written is taken apart, or is unsigned as a whole.
func FuzzARowIsTakenApart(f *testing.F) {
	corpus.Add(f, []byte(`{"signed":{"by":"one","signature":"AA=="},"id":"7d2q"}`))
	corpus.Add(f, []byte(`{"signed":{},"signed":{}}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		body, signed := approval.Parted(row)
		if !signed && !bytes.Equal(body, row) {
			t.Errorf("%q: have %q", row, body)
		}
		if signed && json.Valid(row) != json.Valid(body) && !bytes.Equal(body, []byte("{}")) {
			t.Errorf("%q: what is signed is %q", row, body)
		}
	})
}

package inside_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

func TestFramesArriveAsTheyWereSent(t *testing.T) {
	var stream bytes.Buffer
	for _, want := range []inside.Report{{Started: true}, {Error: "no", Exec: true, Errno: 2}, {Ended: true, Code: 7}} {
		if err := inside.Send(&stream, want); err != nil {
			t.Fatal(err)
		}
		var have inside.Report
		if err := inside.Receive(&stream, &have); err != nil || have != want {
			t.Errorf("have %+v, %v, want %+v", have, err, want)
		}
	}
	var none inside.Report
	if err := inside.Receive(&stream, &none); !errors.Is(err, io.EOF) {
		t.Errorf("have %v at the end", err)
	}
}

func FuzzFramesAreBounded(f *testing.F) {
	corpus.Add(f, []byte{0, 0, 0, 2, '{', '}'})
	corpus.Add(f, []byte{0xff, 0xff, 0xff, 0xff, '{'})
	corpus.Add(f, []byte{0, 0, 0, 9, '{'})
	corpus.Add(f, []byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var report inside.Report
		if err := inside.Receive(bytes.NewReader(data), &report); err == nil && len(data) < 5 {
			t.Errorf("%x was taken for a frame", data)
		}
	})
}

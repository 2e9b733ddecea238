package zmtp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"pgregory.net/rapid"
)

const limit = 1 << 20

func reader(b []byte) *zmtp.Reader { return zmtp.NewReader(bytes.NewReader(b), limit) }

func TestGreeting(t *testing.T) {
	ours := zmtp.AppendGreeting(nil)
	change := func(at int, to ...byte) []byte {
		g := slices.Clone(ours)
		copy(g[at:], to)
		return g
	}
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"our own greeting", ours, nil},
		{"minor version 0", change(11, 0), nil},
		{"a later major version", change(10, 4), nil},
		{"bytes in the signature's padding", change(1, 1, 2, 3), nil},
		{"as-server and filler bytes", change(32, 1, 9, 9), nil},
		{"nothing", nil, io.ErrUnexpectedEOF},
		{"half of it", ours[:30], io.ErrUnexpectedEOF},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), zmtp.ErrProtocol},
		{"an unversioned peer", []byte{1, 0}, zmtp.ErrProtocol},
		{"a length where the signature ends", change(9, 0x7e), zmtp.ErrProtocol},
		{"version 2", append(change(10, 1)[:12], 5), zmtp.ErrProtocol},
		{"the PLAIN mechanism", change(12, []byte("PLAIN")...), zmtp.ErrProtocol},
		{"a mechanism that starts like NULL", change(12, []byte("NULLX")...), zmtp.ErrProtocol},
		{"bytes after the mechanism's end", change(17, 'x'), zmtp.ErrProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{bytes.NewReader(test.in), iotest.OneByteReader(bytes.NewReader(test.in))} {
				if err := zmtp.NewReader(r, limit).Greeting(); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
					t.Errorf("have %v, want %v", err, test.want)
				}
			}
		})
	}
}

// A peer that cannot be one is refused by what has come, not when it stops.
func TestGreetingRefusesEarly(t *testing.T) {
	r := io.MultiReader(strings.NewReader("G"), neverRead{t})
	if err := zmtp.NewReader(r, limit).Greeting(); !errors.Is(err, zmtp.ErrProtocol) {
		t.Errorf("have %v, want a refusal after one byte", err)
	}
}

type neverRead struct{ t *testing.T }

func (n neverRead) Read([]byte) (int, error) {
	n.t.Error("read on")
	return 0, io.EOF
}

func TestReady(t *testing.T) {
	want := []zmtp.Property{{Name: "Socket-Type", Value: "DEALER"}, {Name: "Identity", Value: ""}, {Name: "X-Long", Value: strings.Repeat("v", 300)}}
	item, err := reader(zmtp.AppendReady(nil, want...)).Next()
	if err != nil || item.Command != zmtp.Ready {
		t.Fatalf("have %+v, %v, want READY", item, err)
	}
	have, err := zmtp.ParseProperties(item.Body)
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("have %v, %v, want %v", have, err, want)
	}
	if v, ok := zmtp.Lookup(have, "socket-TYPE"); !ok || v != "DEALER" {
		t.Errorf("have %q, %v, want names without case", v, ok)
	}
}

func TestParsePropertiesRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"an empty name":          "\x00\x00\x00\x00\x00",
		"a name past the end":    "\x05abc",
		"no value length":        "\x01a\x00\x00",
		"a value past the end":   "\x01a\x00\x00\x00\x02b",
		"a value of 4 GiB":       "\x01a\xff\xff\xff\xffb",
		"a name twice":           "\x01a\x00\x00\x00\x00\x01A\x00\x00\x00\x00",
		"bytes after properties": "\x01a\x00\x00\x00\x00\x09",
	} {
		if p, err := zmtp.ParseProperties([]byte(body)); !errors.Is(err, zmtp.ErrProtocol) {
			t.Errorf("%s: have %v, %v, want a refusal", name, p, err)
		}
	}
}

func TestPong(t *testing.T) {
	for _, test := range []struct {
		ping string
		ok   bool
	}{
		{"\x00\x0a", true}, {"\x00\x0acontext", true}, {"\x00\x0a0123456789abcdef", true},
		{"", false}, {"\x00", false}, {"\x00\x0a0123456789abcdefg", false},
	} {
		pong, ok := zmtp.AppendPong(nil, []byte(test.ping))
		if ok != test.ok {
			t.Errorf("%q: have %v", test.ping, ok)
		}
		if ok {
			if item, err := reader(pong).Next(); err != nil || item.Command != zmtp.Pong || string(item.Body) != test.ping[2:] {
				t.Errorf("%q: have %+v, %v, want its context back", test.ping, item, err)
			}
		}
	}
}

func TestNextRefuses(t *testing.T) {
	huge := binary.BigEndian.AppendUint64([]byte{2}, 1<<63)
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"a flag byte alone", []byte{0}, io.ErrUnexpectedEOF},
		{"half a length", []byte{2, 0, 0}, io.ErrUnexpectedEOF},
		{"half a body", []byte{0, 5, 'a'}, io.ErrUnexpectedEOF},
		{"a message that ends after a part", []byte{1, 0}, io.ErrUnexpectedEOF},
		{"a reserved flag", []byte{8, 0}, zmtp.ErrProtocol},
		{"a command with more to come", []byte{5, 1, 0}, zmtp.ErrProtocol},
		{"a command inside a message", []byte{1, 0, 4, 2, 1, 'X'}, zmtp.ErrProtocol},
		{"an empty command", []byte{4, 0}, zmtp.ErrProtocol},
		{"a command without a name", []byte{4, 1, 0}, zmtp.ErrProtocol},
		{"a command whose name is past its end", []byte{4, 2, 9, 'a'}, zmtp.ErrProtocol},
		{"a long command over its limit", append([]byte{6}, binary.BigEndian.AppendUint64(nil, 1<<20)...), zmtp.ErrProtocol},
		{"a length of 2^63", huge, zmtp.ErrProtocol},
		{"a length of 2^63-1", binary.BigEndian.AppendUint64([]byte{2}, 1<<63-1), zmtp.ErrProtocol},
		{"a body announced within the limit that never comes", binary.BigEndian.AppendUint64([]byte{2}, limit), io.ErrUnexpectedEOF},
		{"a message without an end", bytes.Repeat([]byte{1, 0}, 5000), zmtp.ErrProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if item, err := reader(test.in).Next(); !errors.Is(err, test.want) {
				t.Errorf("have %+v, %v, want %v", item, err, test.want)
			}
		})
	}
}

// D-02: what is over a limit is read past, and the next message is read.
func TestNextSkipsWhatIsTooLarge(t *testing.T) {
	for name, big := range map[string][]byte{
		"one frame over the limit":       zmtp.AppendMessage(nil, make([]byte, limit+1)),
		"two frames over it together":    zmtp.AppendMessage(nil, make([]byte, limit), []byte("x")),
		"more frames than are kept":      zmtp.AppendMessage(nil, make([][]byte, zmtp.MaxParts+1)...),
		"40 MiB of arguments":            zmtp.AppendMessage(nil, nil, make([]byte, 40<<20)),
		"too much, then further frames":  zmtp.AppendMessage(nil, make([]byte, limit+1), nil, nil),
		"five hundred frames of nothing": zmtp.AppendMessage(nil, make([][]byte, 500)...),
	} {
		t.Run(name, func(t *testing.T) {
			r := reader(zmtp.AppendMessage(big, []byte("next")))
			if _, err := r.Next(); !errors.Is(err, zmtp.ErrTooLarge) {
				t.Fatalf("have %v, want ErrTooLarge", err)
			}
			if item, err := r.Next(); err != nil || len(item.Parts) != 1 || string(item.Parts[0]) != "next" {
				t.Errorf("have %+v, %v, want the next message", item, err)
			}
		})
	}
}

// What a peer announces costs no memory before it comes.
func TestNextTakesMemoryAsBytesArrive(t *testing.T) {
	announced := append(binary.BigEndian.AppendUint64([]byte{2}, limit), "only this"...)
	const times = 8
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		_, _ = reader(announced).Next() // ends early; its memory is what counts
	}
	runtime.ReadMemStats(&after)
	if have := (after.TotalAlloc - before.TotalAlloc) / times; have > 256<<10 {
		t.Errorf("have %d bytes for a megabyte that never came, want at most 256 KiB", have)
	}
}

// What is appended is read back, however it is cut into reads.
func TestMessagesSurviveAnyCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Custom(func(t *rapid.T) []byte {
			return bytes.Repeat([]byte{'p'}, rapid.SampledFrom([]int{0, 1, 254, 255, 256, 257, 70000, 200000}).Draw(t, "size"))
		})
		messages := rapid.SliceOfN(rapid.SliceOfN(part, 1, 4), 1, 4).Draw(t, "messages")
		var stream []byte
		for _, m := range messages {
			stream = zmtp.AppendMessage(stream, m...)
		}
		source := io.Reader(bytes.NewReader(stream))
		if rapid.Bool().Draw(t, "halves") {
			source = iotest.HalfReader(source)
		}
		r := zmtp.NewReader(source, limit)
		for i, want := range messages {
			have, err := r.Next()
			if err != nil || !slices.EqualFunc(have.Parts, want, bytes.Equal) {
				t.Fatalf("message %d: have %d parts, %v, want %d", i, len(have.Parts), err, len(want))
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("have %v, want the end", err)
		}
	})
}

// Framed is AppendMessage, in place.
func TestFramed(t *testing.T) {
	for _, size := range []int{0, 1, 255, 256, 70000} {
		for _, delimited := range []bool{false, true} {
			body := bytes.Repeat([]byte{'b'}, size)
			parts := [][]byte{nil, body}
			if !delimited {
				parts = parts[1:]
			}
			have := zmtp.Framed(append(make([]byte, zmtp.Room), body...), delimited)
			if want := zmtp.AppendMessage(nil, parts...); !bytes.Equal(have, want) {
				t.Errorf("%d bytes, delimited %v: have %.20x, want %.20x", size, delimited, have, want)
			}
		}
	}
}

// What is said to be whole is read without another byte of the peer's.
func TestWhole(t *testing.T) {
	message := zmtp.AppendMessage(nil, nil, make([]byte, 300), []byte("x"))
	command := zmtp.AppendCommand(nil, zmtp.Ping, []byte("\x00\x0a"))
	for name, stream := range map[string][]byte{"a message": message, "a command": command, "both": append(bytes.Clone(command), message...)} {
		for cut := range len(stream) + 1 {
			r := reader(stream[:cut])
			if cut > 0 && r.Wait() != nil {
				t.Fatalf("%s: no byte of %d", name, cut)
			}
			whole := r.Whole()
			if _, err := r.Next(); whole != (err == nil) {
				t.Errorf("%s cut to %d: have whole %v, and then %v", name, cut, whole, err)
			}
		}
	}
	for name, stream := range map[string][]byte{"a length of 2^64-1": {2, 255, 255, 255, 255, 255, 255, 255, 255, 0}, "nothing": nil} {
		if r := reader(stream); r.Wait() == nil && r.Whole() {
			t.Errorf("%s: have it whole", name)
		}
	}
}

// FuzzReader looks for a panic, an endless loop, or an item over its limits.
func FuzzReader(f *testing.F) {
	greeting := zmtp.AppendGreeting(nil)
	corpus.Add(f, greeting)
	corpus.Add(f, zmtp.AppendMessage(zmtp.AppendReady(greeting, zmtp.Property{Name: "Socket-Type", Value: "DEALER"}), nil, []byte("{}")))
	corpus.Add(f, zmtp.AppendCommand(greeting, zmtp.Ping, []byte("\x00\x01ctx")))
	corpus.Add(f, append(greeting, bytes.Repeat([]byte{1, 0}, 20)...))
	corpus.Add(f, append(greeting, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, data []byte) {
		const small = 1 << 10
		r := zmtp.NewReader(bytes.NewReader(data), small)
		if r.Greeting() != nil {
			return
		}
		for range data {
			whole := r.Wait() == nil && r.Whole()
			item, err := r.Next()
			if whole && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Fatalf("whole, and yet %v", err)
			}
			if err != nil && !errors.Is(err, zmtp.ErrTooLarge) {
				return
			}
			if err := sound(item, small); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func sound(item zmtp.Item, limit int) error {
	size := 0
	for _, part := range item.Parts {
		size += len(part)
	}
	if size > limit || len(item.Parts) > zmtp.MaxParts {
		return fmt.Errorf("%d bytes in %d parts are over the limits", size, len(item.Parts))
	}
	if item.Command == zmtp.Ready {
		_, _ = zmtp.ParseProperties(item.Body) // must not panic
	}
	return nil
}

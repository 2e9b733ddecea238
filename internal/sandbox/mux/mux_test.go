package mux_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox/mux"
)

// facing is a session whose other end takes the streams that it opens.
func facing(accept func(name string, s *mux.Stream)) *mux.Session {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	mux.Open(r2, w1, false, accept)
	return mux.Open(r1, w2, true, nil)
}

func TestWhatIsSentComesBack(t *testing.T) { // U-30
	one := facing(func(_ string, s *mux.Stream) {
		_, _ = io.Copy(s, s)
		_ = s.CloseWrite()
	})
	s, err := one.Stream("echo")
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("nacre"), 300_000)
	go func() {
		_, _ = s.Write(want)
		_ = s.CloseWrite()
	}()
	if have, err := io.ReadAll(s); err != nil || !bytes.Equal(have, want) {
		t.Errorf("have %d bytes, %v", len(have), err)
	}
}

func TestAStreamThatNobodyReadsHoldsUpNoOther(t *testing.T) { // U-30
	one := facing(func(name string, s *mux.Stream) {
		if name == "echo" {
			_, _ = io.Copy(s, s)
			_ = s.CloseWrite()
		}
	})
	deaf, err := one.Stream("deaf")
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan error)
	go func() {
		_, err := deaf.Write(make([]byte, 1<<20))
		stuck <- err
	}()
	s, err := one.Stream("echo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = s.CloseWrite()
	if have, err := io.ReadAll(s); err != nil || string(have) != "hello" {
		t.Errorf("have %q, %v", have, err)
	}
	one.Close()
	if err := <-stuck; err == nil {
		t.Error("more was taken than a window")
	}
}

func TestWhoBreaksTheRulesLosesAll(t *testing.T) { // U-30
	frame := func(kind, id byte, payload ...byte) []byte {
		return append([]byte{kind, 0, 0, 0, id, 0, 0, 0, byte(len(payload))}, payload...)
	}
	for name, text := range map[string][]byte{
		"too long":              {2, 0, 0, 0, 1, 0xff, 0, 0, 0},
		"an unknown kind":       frame(9, 1),
		"a number of ours":      frame(1, 1),
		"a stream not accepted": frame(1, 2),
		"too much credit":       frame(3, 1, 0xff, 0, 0, 0),
		"a short credit":        frame(3, 1, 1),
		"an end in the middle":  {2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			s := mux.Open(r, io.Discard, true, nil)
			st, err := s.Stream("x")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(text)
			_ = w.Close()
			if _, err := st.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("have %v", err)
			}
		})
	}
}

func TestWhoBreaksTheRulesIsReadToItsEnd(t *testing.T) { // U-30
	r, w := io.Pipe()
	s := mux.Open(r, io.Discard, true, nil)
	for _, frame := range [][]byte{{1, 0, 0, 0, 2, 0, 0, 0, 0}, bytes.Repeat([]byte{255}, 1<<20)} {
		if _, err := w.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Stream("late"); err == nil {
		t.Error("its streams did not end")
	}
}

func TestAStreamCountsUntilTheOtherEndWasToldOfItsEnd(t *testing.T) { // U-30
	const most, opened = 512, 700
	r, w := io.Pipe()
	_, deaf := io.Pipe()
	var taken atomic.Int32
	mux.Open(r, deaf, true, func(_ string, s *mux.Stream) {
		taken.Add(1)
		_ = s.Close()
	})
	for i := range opened {
		if _, err := w.Write(binary.BigEndian.AppendUint64([]byte{1}, uint64(2*i+2)<<32)); err != nil {
			t.Fatal(err)
		}
	}
	if have := taken.Load(); have > most {
		t.Errorf("%d streams were taken of an end that reads nothing", have)
	}
}

func TestAnEndOpensFewerStreamsThanTheOtherOneTakes(t *testing.T) { // U-30
	const taken = 512
	one := facing(func(_ string, s *mux.Stream) { _, _ = io.Copy(io.Discard, s) })
	opened := 0
	for err := error(nil); err == nil && opened <= taken; opened++ {
		_, err = one.Stream("x")
	}
	if opened >= taken {
		t.Errorf("%d are opened: one more than the other end takes ends all of them", opened)
	}
}

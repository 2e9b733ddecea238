package person_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/person"
)

// M-46: a code of 8 characters, for 10 minutes, for at most 3 identities, with few tries.
func TestAPairingIsShortAndNarrow(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	code := func(n int) string { return strings.Repeat("A", person.CodeLength-1) + string(person.CodeLetters[n]) }
	full := person.OpenWindow("ada", now)
	for n := range person.MaxPending {
		var err error
		if full, _, err = full.Ask(person.Identity(fmt.Sprintf("telegram:%d", n+1)), code(n), now); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		window   person.Window
		identity person.Identity
		code     string
		at       time.Time
		want     error
	}{
		"the first":                    {person.OpenWindow("ada", now), "slack:T1:U1", code(0), now, nil},
		"one that waits already":       {full, "telegram:1", code(9), now, nil},
		"a fourth":                     {full, "telegram:9", code(9), now, person.ErrNoPairing},
		"nobody pairs":                 {person.Window{}, "telegram:1", code(0), now, person.ErrNoPairing},
		"after ten minutes":            {person.OpenWindow("ada", now), "telegram:1", code(0), now.Add(person.PairingTime), person.ErrNoPairing},
		"a clock that went back":       {person.OpenWindow("ada", now), "telegram:1", code(0), now.Add(-time.Second), person.ErrNoPairing},
		"a terminal, which is no chat": {person.OpenWindow("ada", now), "terminal:1", code(0), now, person.ErrNoPairing},
		"a code with a look-alike":     {person.OpenWindow("ada", now), "telegram:1", "AAAAAAA0", now, person.ErrCode},
		"a code that another one has":  {full, "telegram:9", code(0), now, person.ErrCode},
	} {
		t.Run(name, func(t *testing.T) {
			next, shown, err := c.window.Ask(c.identity, c.code, c.at)
			if !errors.Is(err, c.want) || (err == nil) != (shown != "") {
				t.Errorf("have %q, %v, want %v", shown, err, c.want)
			}
			if err != nil && len(next.Pending) != len(c.window.Pending) {
				t.Error("it waits all the same")
			}
			if name == "one that waits already" && shown != code(0) {
				t.Errorf("have another code: %s", shown)
			}
		})
	}
	wrong := full
	for n := range person.MaxWrong {
		var err error
		if wrong, _, err = wrong.Approve("ada", code(20), now); !errors.Is(err, person.ErrCode) {
			t.Fatalf("try %d: have %v", n, err)
		}
	}
	if _, _, err := wrong.Approve("ada", code(0), now); !errors.Is(err, person.ErrNoPairing) {
		t.Errorf("after %d wrong codes: have %v", person.MaxWrong, err)
	}
	if _, _, err := full.Approve("bob", code(0), now); !errors.Is(err, person.ErrNoPairing) {
		t.Errorf("another operator: have %v", err)
	}
	done, id, err := full.Approve("ada", " "+strings.ToLower(code(1))+" ", now)
	if err != nil || id != "telegram:2" || done.Open(now) {
		t.Errorf("have %q, %v, %+v", id, err, done)
	}
	for _, letter := range "01ILOU" {
		if strings.ContainsRune(person.CodeLetters, letter) {
			t.Errorf("%c is taken for another character", letter)
		}
	}
}

package ports_test

import (
	"reflect"
	"testing"

	"github.com/nacre-dev/nacre/internal/ports"
)

// U-06: what --publish names is read in one way, and what is not plain is refused.
func TestWhatIsPublishedIsReadInOneWay(t *testing.T) {
	for word, want := range map[string]ports.Request{
		"3000":      {Ports: []ports.Publication{{Host: 3000, Inside: 3000}}},
		"3000:8080": {Ports: []ports.Publication{{Host: 3000, Inside: 8080}}},
		"auto":      {Auto: true},
	} {
		if have, err := ports.Parse([]string{word}); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%s: have %+v, %v", word, have, err)
		}
	}
	for _, word := range []string{"", "0", "65536", "-1", "+1", "03000", "3000:", ":80", "3000:8080:1", "0.0.0.0:3000", "localhost:3000", "Auto", "3000/tcp", "3 000", "3000:auto"} {
		if have, err := ports.Parse([]string{word}); err == nil {
			t.Errorf("%q: have %+v", word, have)
		}
	}
	if _, err := ports.Parse([]string{"3000", "3000:8080"}); err == nil {
		t.Error("one port of this machine leads to two inside")
	}
}

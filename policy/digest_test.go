package policy_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// K-06: a number has one digest however it is spelled, and what is recorded of
// a value is what it always was.
func TestTheDigestOfANumberIsThatOfItsValue(t *testing.T) {
	of := func(arguments string) map[string]policy.Digest {
		return policy.RecordedOf(policy.Request{Capability: nacre.Capability{ID: "a.b"}, Arguments: json.RawMessage(arguments)}).Arguments
	}
	for _, same := range [][2]string{
		{`{"a":0}`, `{"a":-0}`}, {`{"a":0}`, `{"a":0.0}`}, {`{"a":100}`, `{"a":1e2}`}, {`{"a":-7}`, `{"a":-7.0}`},
		{`{"a":999999999999999}`, `{"a":999999999999999.0}`}, {`{"a":1000000000000000}`, `{"a":1e15}`}, {`{"a":[120]}`, `{"a":[1.2e2]}`},
	} {
		if have, want := of(same[0]), of(same[1]); !maps.Equal(have, want) {
			t.Errorf("%s and %s: have %v and %v", same[0], same[1], have, want)
		}
	}
	have := of(`{"n":-15,"path":"a/../b","t":"x","yes":true}`)
	want := map[string]policy.Digest{
		"n": "81c494fea921d5f4537bdd73509fa25c", "path": "~4be2f24490d612997410b7063ced236f",
		"t": "91d27d9900c5d69b8f8985807a6d1f3b", "yes": "1664a49cb4c4d7521274c6719732d726",
	}
	if !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

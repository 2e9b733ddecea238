package memory_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/reference"
)

// K-27: the seal of a personal value is kept as it is, since it is no secret, and found as a word.
func TestASealIsKeptAndFound(t *testing.T) {
	s := fresh(t, newClock())
	sealer := reference.NewSealer([]byte("a secret"), "main")
	for kind, value := range map[string]string{
		"email": "bob.baker@a-long-name-of-a-corporation.example", "phone": "+49 30 1234 5678", "iban": "DE89370400440532013000", "card": "4111 1111 1111 1111",
	} {
		sealed, ok := sealer.Seal(kind, value)
		if !ok {
			t.Fatalf("%s is not sealed", value)
		}
		add(t, s, memory.Writer{Session: "s1"}, "fact", "Bob has "+sealed+", since May.", kind)
		found, err := s.Search(t.Context(), memory.Query{Text: sealed, Limit: 5})
		if err != nil || len(found) == 0 || !strings.Contains(found[0].Content, sealed) {
			t.Errorf("%s: have %+v, %v", kind, found, err)
		}
	}
}

package grant

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// MaxText is the longest text of a token, in bytes.
const MaxText = token.MaxText

// idBytes is how many random bytes the id of a derived token is made of.
const idBytes = 16

// Derive returns a token that allows what t allows and narrower leaves, and never
// more. It needs no key and asks nobody (K-11). A caveat without an id gets a random
// one; the token is revoked under the ids of its links with slashes between.
//
// An error is a refusal, a *nacre.Refusal, and wraps nacre.ErrTokenMalformed,
// nacre.ErrTokenPrincipal or another nacre.ErrToken value, which says what narrower
// asks for beyond t.
func Derive(t nacre.Token, narrower nacre.Caveat) (nacre.Token, error) {
	if narrower.ID == "" {
		id := make([]byte, idBytes)
		_, _ = rand.Read(id) // never fails
		narrower.ID = hex.EncodeToString(id)
	}
	derived, err := token.Attenuate(t, narrower)
	if err != nil {
		return nacre.Token{}, fmt.Errorf("%w: %w", &nacre.Refusal{
			Code: nacre.CodeUnauthorized, Reason: nacre.ReasonTokenRefused, Message: "the token cannot be narrowed like this",
		}, err)
	}
	return derived, nil
}

// Text returns the one text form of a token: letters, digits, - and _, fit for a
// URL, a header and a file, of at most MaxText bytes. It is as secret as the token.
// An error says that the token would be longer.
func Text(t nacre.Token) (string, error) { return token.Encode(t) }

// Parse reads what Text wrote, and no other spelling of it. It says nothing of
// whether the token is good: kernel.Invoke does. An error wraps
// nacre.ErrTokenMalformed.
func Parse(text string) (nacre.Token, error) { return token.Decode(text) }

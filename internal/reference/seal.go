package reference

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
)

const (
	// sealMark stands between the kind and what is sealed.
	sealMark = ":sealed-"
	// maxSeal is the longest text behind the mark: of [MaxValue] bytes.
	maxSeal = (aes.BlockSize + MaxValue) * 8 / 5
)

// sealText is how what is sealed is written: as words, so that a search finds it as a whole.
func sealText() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

// Sealer seals values for one group, for text that outlives sessions: the same value always
// has the same seal, which only the group can open. The zero value seals and opens nothing.
type Sealer struct {
	block cipher.Block
	mac   []byte
}

// NewSealer returns that of a group. The secret is the kernel's: with another one, what was
// sealed is inert text.
func NewSealer(secret []byte, group string) Sealer {
	block, err := aes.NewCipher(derived(secret, "nacre.reference.seal.1\x00"+group))
	if err != nil { // of 32 bytes: never
		return Sealer{}
	}
	return Sealer{block, derived(secret, "nacre.reference.seal.mac.1\x00"+group)}
}

func derived(secret []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose)) // never fails
	return mac.Sum(nil)
}

// Seal returns what stands for a value in lasting text; not ok where the value is none that
// could have a word.
func (s Sealer) Seal(kind, value string) (sealed string, ok bool) {
	if s.block == nil || !isKind(kind) || value == "" || len(value) > MaxValue {
		return "", false
	}
	iv := s.check(kind, value)
	hidden := make([]byte, len(value))
	cipher.NewCTR(s.block, iv).XORKeyStream(hidden, []byte(value))
	return kind + sealMark + sealText().EncodeToString(append(iv, hidden...)), true
}

// check is where the key stream of a value begins. It is made of the value, so that it says whether
// what was opened is what was sealed (as in RFC 5297).
func (s Sealer) check(kind, value string) []byte {
	return derived(s.mac, kind+"\x00"+value)[:aes.BlockSize]
}

// Open returns a text, or JSON, with what name says of each value in the place of its seal:
// a word, say. A seal of another group, one that was made up, and one that name has nothing
// for stay as they are.
func (s Sealer) Open(text []byte, isJSON bool, name func(kind, value string) (string, bool)) []byte {
	var out []byte
	copied := 0
	for at := 0; s.block != nil; {
		i := bytes.Index(text[at:], []byte(sealMark))
		if i < 0 {
			break
		}
		mark, end := at+i, at+i+len(sealMark)
		start := mark
		for start > copied && mark-start < maxKind && isLower(text[start-1]) {
			start--
		}
		body := end
		for end < len(text) && end-body <= maxSeal && (isLower(text[end]) || '2' <= text[end] && text[end] <= '7') {
			end++
		}
		at = end
		kind := string(text[start:mark])
		if value, ok := s.open(kind, text[body:end]); ok {
			if word, ok := name(kind, value); ok {
				out = append(append(out, text[copied:start]...), spelled(word, isJSON)...)
				copied = end
			}
		}
	}
	if out == nil {
		return text
	}
	return append(out, text[copied:]...)
}

func (s Sealer) open(kind string, body []byte) (value string, ok bool) {
	sealed, err := sealText().DecodeString(string(body))
	if err != nil || len(sealed) <= aes.BlockSize || !isKind(kind) {
		return "", false
	}
	iv, hidden := sealed[:aes.BlockSize], sealed[aes.BlockSize:]
	plain := make([]byte, len(hidden))
	cipher.NewCTR(s.block, iv).XORKeyStream(plain, hidden)
	value = string(plain)
	return value, hmac.Equal(iv, s.check(kind, value))
}

package approval

import "crypto/rand"

// idLen is how many characters a person types.
const idLen = 4

// alphabet leaves out what is taken for something else (i, l, o, u, 0, 1); its
// 30 characters make 810,000 ids.
const alphabet = "abcdefghjkmnpqrstvwxyz23456789"

// newID draws a short id that is not taken.
func newID(taken func(string) bool) string {
	for {
		if id := drawID(); !taken(id) {
			return id
		}
	}
}

func drawID() string {
	id := make([]byte, 0, idLen)
	var random [16]byte
	for {
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			if int(b) >= 256/len(alphabet)*len(alphabet) {
				continue // would make some letters likelier
			}
			if id = append(id, alphabet[int(b)%len(alphabet)]); len(id) == idLen {
				return string(id)
			}
		}
	}
}

package checksum_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/checksum"
)

// K-15: the numbers of cards and accounts that issuers publish for tests, and the same
// with a digit changed.
func TestNumbersAreToldByTheirCheckDigits(t *testing.T) {
	for _, c := range []struct {
		number string
		is     func([]byte) bool
		want   bool
	}{
		{"4111111111111111", checksum.Card, true},
		{"5555555555554444", checksum.Card, true},
		{"378282246310005", checksum.Card, true},
		{"4111111111111112", checksum.Card, false},
		{"9111111111111111", checksum.Card, false}, // of no brand
		{"4444444444444444", checksum.Card, false}, // one digit alone
		{"411111111111", checksum.Card, false},     // too short
		{"", checksum.Card, false},
		{"DE89370400440532013000", checksum.Account, true},
		{"GB82WEST12345698765432", checksum.Account, true},
		{"DE89370400440532013001", checksum.Account, false},
		{"DE89", checksum.Account, false},
	} {
		if have := c.is([]byte(c.number)); have != c.want {
			t.Errorf("%q: %v", c.number, have)
		}
	}
}

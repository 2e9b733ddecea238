// Package checksum tells the numbers of payment cards and bank accounts from other
// numbers, by what issuers have fixed of them: first digits, lengths and check digits.
package checksum

// The lengths of a card's number, in digits.
const minCard, maxCard = 13, 19

// Card reports whether digits, in ASCII, are as a card's: a brand's first digits and
// length, and Luhn's check digit (ISO/IEC 7812).
func Card(digits []byte) bool {
	return len(digits) >= minCard && len(digits) <= maxCard && brand(digits) && luhn(digits)
}

func brand(digits []byte) bool {
	at := func(n int) (v int) {
		for _, d := range digits[:n] {
			v = v*10 + int(d-'0')
		}
		return v
	}
	count := len(digits)
	switch two, four := at(2), at(4); {
	case two/10 == 4:
		return count == 16 || count == 13 || count == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return count == 16
	case two == 34 || two == 37:
		return count == 15
	case four == 6011 || two == 65 || two == 64 || two == 35:
		return count == 16
	case two == 36 || two == 38 || four >= 3000 && four <= 3059:
		return count == 14
	case two == 62:
		return count >= 16
	}
	return false
}

func luhn(digits []byte) bool {
	sum, distinct := 0, false
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		distinct = distinct || digits[i] != digits[0]
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && distinct
}

// country is how many letters and digits stand before the rest of an account's number.
const country = 4

// Account reports whether an international bank account number, in capital letters and
// digits without spaces, has the right check digits (ISO 13616).
func Account(number []byte) bool {
	return len(number) > country && remainder(number[country:], number[:country]) == 1
}

// remainder is that of the number which letters and digits spell, by 97.
func remainder(parts ...[]byte) int {
	r := 0
	for _, part := range parts {
		for _, b := range part {
			if '0' <= b && b <= '9' {
				r = (r*10 + int(b-'0')) % 97
			} else {
				r = (r*100 + int(b-'A') + 10) % 97
			}
		}
	}
	return r
}

package provenance

import (
	"strconv"
	"strings"
)

const (
	// maxDigits is the longest number that is read as one.
	maxDigits = 64
	// An account or a telephone number with its country has so many digits, an
	// IBAN so many letters and digits.
	minAccount  = 8
	minPhone    = 7
	maxAccount  = 20
	minIBAN     = 15
	maxIBAN     = 34
	ibanGroup   = 4
	ibanModulus = 97
)

// decimal returns a JSON number without exponent and without needless zeros.
func decimal(raw string) (string, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(raw), "e")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift > maxDigits || shift < -maxDigits {
			return "", false
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if len(mantissa) > maxDigits || !allDigits(whole+fraction) {
		return "", false
	}
	point := len(whole) + shift
	digits := whole + fraction
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	number := strings.TrimLeft(digits[:point], "0")
	if number == "" {
		number = "0"
	}
	if fraction = strings.TrimRight(digits[point:], "0"); fraction != "" {
		number += "." + fraction
	}
	if negative && number != "0" {
		number = "-" + number
	}
	return number, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// spokenNumber reads a number as people write it: 1,000.50 and 1.000,50 and
// 1'000. One comma before three digits groups them, one dot is a decimal point.
// What begins with a needless zero is no number but a name.
func spokenNumber(text string) (string, bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if len(digits) == 0 || len(digits) > maxDigits || !isDigit(digits[0]) {
		return "", false
	}
	whole, fraction := digits, ""
	if i := strings.LastIndexAny(digits, ".,"); i >= 0 && isPoint(digits, i) {
		whole, fraction = digits[:i], digits[i+1:]
		if !allDigits(fraction) || strings.IndexByte(whole, digits[i]) >= 0 {
			return "", false
		}
	}
	whole, ok := ungroup(whole)
	if !ok || (len(whole) > 1 && whole[0] == '0') {
		return "", false
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return decimal(whole)
}

// isPoint reports whether the last separator of a number is its decimal point,
// and not one between groups.
func isPoint(digits string, i int) bool {
	separator, before := digits[i], digits[:i]
	if strings.IndexByte(before, separator) >= 0 {
		return false
	}
	return separator == '.' || len(digits)-i-1 != 3 || strings.ContainsAny(before, ".'")
}

// ungroup removes separators between groups of three digits, which must be all alike.
func ungroup(whole string) (string, bool) {
	i := strings.IndexAny(whole, ".,'")
	if i < 0 {
		return whole, allDigits(whole)
	}
	groups := strings.Split(whole, whole[i:i+1])
	for n, group := range groups {
		if !allDigits(group) || len(group) > 3 || (n > 0 && len(group) != 3) {
			return "", false
		}
	}
	return strings.Join(groups, ""), true
}

// accountOf reads a text that is one account or telephone number, and returns
// it without what groups it.
func accountOf(text string) (string, bool) {
	if number, end := phoneAt(text, 0); end == len(text) && number != "" {
		return number, true
	}
	if len(text) > 2*maxIBAN {
		return "", false
	}
	if !isIBANHead(text) {
		return "", false
	}
	compact := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, text)
	return compact, isIBAN(compact)
}

// phoneAt reads the digits from i on, with what people put between them, to
// where they end. The number is empty where it is none.
func phoneAt(text string, i int) (number string, end int) {
	var digits [maxAccount + 1]byte
	n, international := 0, false
	if strings.HasPrefix(text[i:], "+") {
		digits[0], n, international = '+', 1, true
		i++
	}
	for end = i; i < len(text); i++ {
		switch c := text[i]; {
		case isDigit(c):
			if n < len(digits) {
				digits[n] = c
			}
			n++
			end = i + 1
		case c == ' ' || c == '-' || c == '(' || c == ')' || (international && (c == '.' || c == '/')):
		default:
			i = len(text)
		}
	}
	least := minAccount
	if international {
		least = minPhone + 1
	}
	if n > len(digits) || n < least {
		return "", end
	}
	return string(digits[:n]), end
}

func isIBANHead(s string) bool {
	return len(s) >= ibanGroup && isLetter(s[0]) && isLetter(s[1]) && isDigit(s[2]) && isDigit(s[3])
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }

// isIBAN checks the two digits that guard an IBAN (ISO 13616).
func isIBAN(s string) bool {
	if len(s) < minIBAN || len(s) > maxIBAN || !isIBANHead(s) {
		return false
	}
	remainder := 0
	for i := range len(s) {
		switch c := s[(i+ibanGroup)%len(s)]; {
		case isDigit(c):
			remainder = (remainder*10 + int(c-'0')) % ibanModulus
		case isLetter(c):
			remainder = (remainder*100 + int(c-'a') + 10) % ibanModulus
		default:
			return false
		}
	}
	return remainder == 1
}

// Package encoded promises to find what a text says in another spelling, and to tell what and where
// that is. It reads escapes of programming languages, URLs, HTML, terminals and mail, and
// characters that look like others. It reads runs of base64 and hexadecimal, and lists of bytes,
// too. It takes time in proportion to the text, and memory for a window of it.
package encoded

// Span is a part of a text, in bytes.
type Span struct{ Start, End int }

var (
	alnum = among(digits + letters)
	hexed = among(digits + "abcdefABCDEF")
	// dumped is what a list of bytes is written with.
	dumped = among(digits + "abcdefABCDEF ,:-xX")
	// signs are the bytes with which one of escapes begins.
	signs = among("%\\&\x00\x1b\"'`\xC2\xCD\xE1\xE2\xE3\xEF\xF0\xF3")
	// quotes are those of literals, joins what stands behind one that is joined with the next.
	quotes, joins = among("\"'`"), among(" \t\n\r+.&|\\~")
	// soft are the bytes that stand behind the = of quoted-printable.
	soft = among("0123456789ABCDEF\r\n")
)

func among(bytes string) (t [256]bool) {
	for i := range len(bytes) {
		t[bytes[i]] = true
	}
	return t
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isLetter(b byte) bool { return alnum[b] && !isDigit(b) }

// lower is b in lower case, where it is a letter.
func lower(b byte) byte { return b | 0x20 }

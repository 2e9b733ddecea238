package tripwire

import (
	"bytes"
	"unicode/utf8"
)

// maxText is how much of one text is looked at, in bytes.
const maxText = 256 << 10

// hiddenRun is how many characters that nobody sees make a hidden message.
const hiddenRun = 8

// fingerprint is a group of words that belong to injections, all of which stand
// in a text within span bytes of the first.
type fingerprint struct {
	name  string
	first []string
	then  []string
}

// span is how far apart the words of a fingerprint may be, in bytes.
const span = 80

func fingerprints() []fingerprint {
	return []fingerprint{
		{"orders to ignore instructions",
			[]string{"ignore", "disregard", "forget", "override"},
			[]string{"previous instruction", "prior instruction", "above instruction", "earlier instruction", "your instruction", "all instruction", "system prompt", "previous prompt"}},
		{"the markers of a model's turns", []string{"<|im_start|>", "<|system|>", "[/inst]", "<<sys>>", "<|endoftext|>", "<|start_header_id|>"}, nil},
		{"a new role for the reader", []string{"you are now", "from now on you"}, []string{"unrestricted", "developer mode", "dan", "jailbr", "no longer bound", "administrator"}},
		{"orders to hide something from the user",
			[]string{"do not tell the user", "don't tell the user", "without telling the user", "do not mention this to the user", "do not inform the user", "hide this from the user"}, nil},
		{"orders to send secrets away", []string{"send", "post", "upload", "exfiltrate", "curl"}, []string{"api key to", "credentials to http", "secrets to http", ".env to http", "private key to", "ssh key to"}},
	}
}

// Read is told of a text that the agent has read, and from where.
func (w *Watch) Read(from, text string) []Alarm {
	text = text[:min(len(text), maxText)]
	var alarms []Alarm
	low := squeeze(text)
	for _, f := range fingerprints() {
		if f.in(low) {
			alarms = append(alarms, w.once(Injection, f.name, "what "+from+" returned holds "+f.name)...)
		}
	}
	if hidden(text) {
		alarms = append(alarms, w.once(Injection, "hidden", "what "+from+" returned holds a text that nobody can see")...)
	}
	return alarms
}

func (f fingerprint) in(text []byte) bool {
	for _, first := range f.first {
		rest := text
		for {
			at := bytes.Index(rest, []byte(first))
			if at < 0 {
				break
			}
			if len(f.then) == 0 {
				return true
			}
			rest = rest[at+len(first):]
			near := rest[:min(len(rest), span)]
			for _, then := range f.then {
				if bytes.Contains(near, []byte(then)) {
					return true
				}
			}
		}
	}
	return false
}

// squeeze makes letters small and every run of space one.
func squeeze(text string) []byte {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			if len(out) > 0 && out[len(out)-1] == ' ' {
				continue
			}
			c = ' '
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return out
}

// hidden tells a run of characters in which text is smuggled: Unicode's tags,
// and long runs of zero width.
func hidden(text string) bool {
	if isASCII(text) {
		return false
	}
	tags, zero := 0, 0
	for _, r := range text {
		switch {
		case 0xE0020 <= r && r <= 0xE007F:
			tags++
		case r == 0x200B || r == 0x200C || r == 0x2060 || r == 0xFEFF || 0x2061 <= r && r <= 0x2064:
			zero++
		default:
			tags, zero = 0, 0
		}
		if tags > hiddenRun || zero > 2*hiddenRun {
			return true
		}
	}
	return false
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

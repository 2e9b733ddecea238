package tripwire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is how much of one text is looked at, in bytes.
const maxText = 256 << 10

// hiddenRun is how many characters that nobody sees make a hidden message.
const hiddenRun = 8

// fingerprint is lists of words that belong to injections: one of the first, and
// within span bytes behind it one of each further list that there is.
type fingerprint struct {
	name        string
	first, then []string
	also        []string
}

// span is how far apart the words of a fingerprint may be, in bytes.
const span = 80

const (
	ignores = "orders to ignore instructions"
	hides   = "orders to hide something from the user"
	sends   = "orders to send secrets away"
	roles   = "a new role for the reader"
)

// fingerprints are words in lower case, with one space between them and no marks of
// emphasis.
var fingerprints = []fingerprint{
	{ignores, []string{"ignore", "disregard", "forget", "override", "overwrite", "bypass"}, earlier, nil},
	{ignores, []string{"ignorier"}, []string{"vorherigen anweisung", "bisherigen anweisung", "vorigen anweisung"}, nil},
	{ignores, []string{"ignore", "oublie"}, []string{"instructions pr\u00e9c\u00e9dentes", "consignes pr\u00e9c\u00e9dentes"}, nil},
	{ignores, []string{"ignora", "olvida"}, []string{"instrucciones anteriores", "instrucciones previas", "istruzioni precedenti"}, nil},
	{ignores, []string{"\u5ffd\u7565", "\u65e0\u89c6"}, []string{"\u4e4b\u524d\u7684\u6307\u4ee4", "\u4ee5\u4e0a\u6307\u4ee4", "\u5148\u524d\u7684\u6307\u4ee4", "\u6240\u6709\u6307\u4ee4"}, nil},
	{"the markers of a model's turns", []string{
		"<|im_start|>", "<|system|>", "[/inst]", "<s>[inst]", "<<sys>>", "<|endoftext|>", "<|start_header_id|>", "<|eot_id|>", "<start_of_turn>",
	}, nil, nil},
	{roles, []string{"you are now", "from now on you"}, []string{"unrestricted", "developer mode", "dan", "jailbr", "no longer bound", "administrator"}, nil},
	{roles, []string{"act as", "pretend", "behave as"}, []string{"no restrictions", "without restrictions", "unrestricted ai", "jailbr", "no ethical"}, nil},
	{hides, []string{
		"do not tell the user", "don't tell the user", "without telling the user", "do not mention this to the user", "do not inform the user", "hide this from the user",
		"don't mention this to the user", "without the user's knowledge", "without the user knowing", "secret from the user", "don't inform the user", "do not alert the user",
		"don't let the user know", "do not let the user know", "do not reveal this to the user", "never mention this to the user",
	}, nil, nil},
	{sends, []string{"send", "post", "upload", "exfiltrate", "transmit", "forward", "email"}, secretsOfUsers, []string{" to http", " to ftp", " to attacker"}},
	{sends, []string{"curl", "wget"}, []string{"api key to", "credentials to http", "secrets to http", ".env to http", "private key to", "ssh key to", "@.env", "@~/.ssh", "@~/.aws", "@$home/.ssh"}, nil},
	{"orders to whoever is a model", []string{
		"if you are an ai ", "if you are an ai,", "if you're an ai ", "if you're an ai,", "if you are a language model", "if you are an llm", "note to ai:", "note to ai ", "note to the ai:",
		"attention ai:", "attention ai ", "message for ai:",
	}, []string{"run ", "execute", "send ", "curl", "ignore", "you must", "fetch "}, nil},
	{"orders to read files for a tool", []string{"before using this tool", "before calling this tool", "before you use this tool"}, []string{"read ", "~/", "open "}, nil},
	{"orders to read files for a tool", []string{"pass its content", "pass the content", "pass its full content"}, []string{"sidenote", "side note", "' parameter", "as a parameter"}, nil},
	{"orders to tell what a model was told", []string{"reveal", "print", "repeat", "output"}, []string{"your system prompt", "your initial instructions", "your instructions verbatim"}, nil},
	{"an approval that nobody gave", []string{"the user has", "the user already", "the operator has"}, []string{"approved this action", "authorized this action", "pre-approved this", "authorized you to", "approved this command"}, nil},
}

// earlier are what a model was told before.
var earlier = slices.Concat(
	[]string{"system prompt", "instructions above", "everything above", "everything you were told", "everything you have been told", "instructions you", "instructions that you", "safety guideline", "your restrictions", "your guardrails"},
	pairs([]string{"previous", "prior", "above", "earlier", "preceding", "your", "all", "original"}, []string{"instruction"}),
	pairs([]string{"previous", "prior", "earlier", "preceding"}, []string{"prompt", "direction", "guidance", "commands", "orders"}),
)

func pairs(firsts, seconds []string) (list []string) {
	for _, first := range firsts {
		for _, second := range seconds {
			list = append(list, first+" "+second)
		}
	}
	return list
}

var secretsOfUsers = []string{
	"api key", "credential", "secrets", ".env", "private key", "ssh key", "id_rsa", ".ssh/", ".aws/", "environment variables", "access token", "passwords",
}

// maxSource is how much of a path, an address or a command an alarm shows, in bytes.
const maxSource = 160

// Source names what a tool reads, for Read: the tool, and the path, the address
// or the command of its input where there is one.
func Source(name string, input json.RawMessage) string {
	var fields map[string]any
	if len(input) > maxInput || json.Unmarshal(input, &fields) != nil {
		return name
	}
	for _, key := range slices.Concat([]string{"url"}, pathKeys(), []string{"address", "query"}) {
		if text, ok := fields[key].(string); ok && text != "" {
			return name + " of " + shownSource(text)
		}
	}
	if list := commands(fields); len(list) > 0 {
		return name + " of " + shownSource(strings.TrimSpace(list[0]))
	}
	return name
}

// shownSource quotes a text: a terminal takes no orders from it.
func shownSource(text string) string {
	if len(text) > maxSource {
		text = strings.ToValidUTF8(text[:maxSource], "") + "\u2026"
	}
	return strconv.Quote(text)
}

// Read is told of a text that the agent has read, and from where. Each kind of
// injection is told once of each source.
func (w *Watch) Read(from, text string) []Alarm {
	text = text[:min(len(text), maxText)]
	var alarms []Alarm
	low := squeeze(text)
	for _, f := range fingerprints {
		if f.in(low) {
			alarms = append(alarms, w.once(Injection, from+"\x00"+f.name, "a text holds "+f.name+": "+from)...)
		}
	}
	if hidden(text) {
		alarms = append(alarms, w.once(Injection, from+"\x00hidden", "a text holds another that nobody can see: "+from)...)
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
			denied := negated(rest[:at])
			rest = rest[at+len(first):]
			if denied {
				continue
			}
			near := rest[:min(len(rest), span)]
			if among(near, f.then) && (len(f.also) == 0 || among(near, f.also)) {
				return true
			}
		}
	}
	return false
}

// negated tells that what follows is not to be done: do not forget the instructions above.
func negated(before []byte) bool {
	return slices.ContainsFunc([]string{"not ", "n't ", "never "}, func(word string) bool { return bytes.HasSuffix(before, []byte(word)) })
}

func among(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}

// squeeze makes letters small and every run of space one, without what emphasises
// words and what nobody sees between letters.
func squeeze(text string) []byte {
	if !isASCII(text) {
		text = strings.Map(plainRune, text)
	}
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '*' || c == '`':
			continue
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

// lookalikes are letters of other alphabets, and the Latin ones that they pass for.
const lookalikes = "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u0131\u03bf\u03b1\u03b9\u03c1\u0410\u0415\u041e\u0420\u0421\u0425\u0406\u041c\u0422\u0391\u0395\u039f\u0399\u03a1\u2019"

const lookalikesLatin = "aeopcyxijsdhioaipaeopcximtaeoip'"

// plainRune is how a reader takes a character. Wide letters and those of other alphabets are Latin
// ones, spaces of any kind are a space, and what has no width is nothing.
func plainRune(c rune) rune {
	switch {
	case c < utf8.RuneSelf:
		return c
	case 0xff01 <= c && c <= 0xff5e:
		return c - 0xff01 + '!'
	case c == 0x200b, c == 0x200c, c == 0x200d, c == 0x2060, c == 0xfeff, c == 0x00ad:
		return -1
	case unicode.IsSpace(c):
		return ' '
	}
	if at := strings.IndexRune(lookalikes, c); at >= 0 {
		return rune(lookalikesLatin[utf8.RuneCountInString(lookalikes[:at])])
	}
	return c
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

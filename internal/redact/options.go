package redact

import (
	"slices"
	"strings"
)

// program is one to which a short option gives a password.
type program struct {
	option byte
	name   string
}

var programs = []program{{'p', loginCommand}, {'p', "twine upload "}, {'a', "redis-cli "}, {'w', "ldapsearch "}, {'w', "ldapmodify "}}

// loginCommand is the command of many programs that takes a password.
const loginCommand = "login"

// logsIn reports whether a command has login for a word of its own, and not for the
// value of an option of `docker run`.
func logsIn(command string) bool {
	words := strings.Fields(command)
	runs := false
	for i, word := range words {
		if word == loginCommand && (i > 0 || command[0] == ' ') && (!runs || !strings.HasPrefix(words[i-1], "-")) {
			return true
		}
		runs = runs || word == "run" || word == "create" || word == "exec"
	}
	return false
}

// isPort reports whether a value says which ports are published.
func isPort(value string) bool {
	plain := strings.Trim(value, "0123456789")
	return plain == "" || strings.Contains(plain, ":") && strings.Trim(strings.TrimSuffix(strings.TrimSuffix(value, "/tcp"), "/udp"), "0123456789.:") == ""
}

// in reports whether the program's name, with a space behind it, is in a command.
func (p program) in(command string) bool {
	if p.name == loginCommand {
		return logsIn(command)
	}
	return strings.Contains(command, p.name) || strings.HasSuffix(command, p.name[:len(p.name)-1])
}

// maxCommand is how far before an option its program stands, in bytes.
const maxCommand = 160

// passwordOption takes the password in `docker login -u user -p password`.
func (h *hunt) passwordOption(start, end int) (span, bool) {
	attached := h.text[end-1] != ' ' // mysql -psecret
	if attached && (h.text[end-1] != 'p' || !value.has(h.byteAt(end))) {
		return span{}, false
	}
	command := h.text[max(0, start-maxCommand):start]
	command = command[strings.LastIndexAny(command, "\n;|&")+1:]
	option := h.text[start+len(" -")]
	if attached {
		stop := h.run(value, end)
		client := strings.Contains(command, "mysql") || strings.Contains(command, "mariadb")
		ports := strings.Trim(h.text[end:stop], "0123456789:./-") == "" && strings.Contains(h.text[end:stop], ":") // docker run -p3306:3306 mysql
		return span{end, stop}, client && !ports && secretValue(password, h.text[end:stop], true)
	}
	if !slices.ContainsFunc(programs, func(p program) bool { return p.option == option && p.in(command) }) {
		return span{}, false
	}
	for q := 0; q < 2 && (h.byteAt(end) == '"' || h.byteAt(end) == '\'' || h.byteAt(end) == '\\'); q++ {
		end++
	}
	stop := h.run(value, end)
	secret := secretValue(password, h.text[end:stop], true) && !isPort(h.text[end:stop])
	return span{end, stop}, secret
}

// pairArgument takes the second text in BasicAuth("user", "password").
func (h *hunt) pairArgument(end int) (span, bool) {
	_, comma, ok := h.literal(end)
	if !ok {
		return span{}, false
	}
	for comma < len(h.text) && (h.text[comma] == ',' || h.text[comma] == ' ') && comma-end < maxUserinfo {
		comma++
	}
	second, _, ok := h.literal(comma)
	return second, ok && secretValue(password, h.text[second.start:second.end], true)
}

// literal is the text in quotes that begins at a place, and where it has ended.
func (r *reading) literal(at int) (inside span, after int, ok bool) {
	if r.byteAt(at) == '\\' {
		at++
	}
	quote := r.byteAt(at)
	if quote != '"' && quote != '\'' {
		return span{}, 0, false
	}
	rest := r.text[at+1 : min(len(r.text), at+1+maxUserinfo)]
	n := strings.IndexByte(rest, quote)
	if n < 0 {
		return span{}, 0, false
	}
	stop := at + 1 + n
	return span{at + 1, at + 1 + len(strings.TrimSuffix(rest[:n], `\`))}, stop + 1, true
}

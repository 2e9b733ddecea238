// Package gitwire promises that a request of git over https is read as the host's git reads
// it: which repository, which service, and of a push which refs (M-35). What could be read
// in another way is refused, and so is all that is not git's smart protocol. It is pure.
package gitwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Service is what a host's git is asked to do.
type Service string

// The services.
const (
	// Fetch is of clones and fetches.
	Fetch Service = "git-upload-pack"
	// Push is of pushes.
	Push Service = "git-receive-pack"
)

const (
	// maxCommands is how much of a push may name refs, in bytes: some 500 of them.
	maxCommands = 64 << 10
	// lengthSize is the four hexadecimal digits before each line.
	lengthSize = 4
)

// Refusal is why a request is not one that the scope is for.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Scope is what a credential is for.
type Scope struct {
	// Repositories are the paths of repositories, and Push the refs that may be pushed, as
	// they are written.
	Repositories, Push []string
	// IsRef reports whether a text is the whole name of a ref, and AllowsPush whether Push has it. AllowsForce reports whether it may be
	// moved to a commit that does not follow.
	IsRef, AllowsPush, AllowsForce func(ref string) bool
}

// Read finds the service that a request asks for, of a repository of the scope. The path
// and the query are as they are on the wire.
func Read(scope Scope, method, path, query string) (Service, error) {
	rest, found := "", false
	for _, repository := range scope.Repositories {
		if after, ok := strings.CutPrefix(path, repository+"/"); ok {
			rest, found = after, true
		}
	}
	if !found {
		return "", Refusal("the credential is for the repositories " + strings.Join(scope.Repositories, ", ") + " alone, spelled so")
	}
	service := Service(rest)
	asked := http.MethodPost
	if rest == "info/refs" {
		service, asked = Service(strings.TrimPrefix(query, "service=")), http.MethodGet
		query = strings.TrimPrefix(query, "service="+string(service))
	}
	switch {
	case service != Fetch && service != Push, method != asked, query != "":
		return "", Refusal("the credential is for git's smart protocol: clones, fetches and pushes, not for LFS, archives, pages or an API of the host")
	case service == Push && len(scope.Push) == 0:
		return "", Refusal("the credential reads the repository: push in its configuration names no ref")
	}
	return service, nil
}

// Commands reads the commands at the beginning of a push, to the line that ends them. It gives back what was read, also where it refuses,
// and which refs must follow what they were on. It refuses a push that would change another ref than those of the scope, or tell the host
// anything but commands and objects.
func Commands(r io.Reader, scope Scope) (read []byte, moves []Move, err error) {
	from := io.TeeReader(io.LimitReader(r, maxCommands), (*appended)(&read))
	commands := 0
	for {
		line, end, err := nextLine(from)
		switch {
		case err != nil && len(read) >= maxCommands:
			return read, nil, Refusal("a push through the proxy changes some 500 refs at most: push fewer at once")
		case err != nil:
			return read, nil, err
		case end:
			return read, moves, nil
		}
		if isShallow(line) && commands == 0 {
			continue
		}
		move, err := commandOf(line, commands == 0, scope)
		if err != nil {
			return read, nil, err
		}
		if strings.Trim(move.Old, "0") != "" && !scope.AllowsForce(move.Ref) {
			moves = append(moves, move)
		}
		commands++
	}
}

// appended keeps what is written.
type appended []byte

// Write implements io.Writer.
func (a *appended) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// nextLine reads one pkt-line, or the flush that ends them.
func nextLine(r io.Reader) (line string, end bool, err error) {
	var digits [lengthSize]byte
	if err := readFull(r, digits[:]); err != nil {
		return "", false, err
	}
	length, err := strconv.ParseUint(string(digits[:]), 16, 16)
	switch {
	case err != nil:
		return "", false, Refusal("the push is not in git's protocol")
	case length == 0:
		return "", true, nil
	case length <= lengthSize:
		return "", false, Refusal("the push has a line that no push has")
	}
	data := make([]byte, length-lengthSize)
	if err := readFull(r, data); err != nil {
		return "", false, err
	}
	return string(bytes.TrimSuffix(data, []byte("\n"))), false, nil
}

func readFull(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Refusal("the push ends before its commands do")
	}
	return err
}

// isShallow accepts the lines by which a shallow clone says where its history ends.
func isShallow(line string) bool {
	id, ok := strings.CutPrefix(line, "shallow ")
	return ok && isID(id)
}

// commandOf reads one command: OLD NEW REF, and behind the first one what the client can.
func commandOf(line string, first bool, scope Scope) (Move, error) {
	command, abilities, told := strings.Cut(line, "\x00")
	if told && (!first || strings.Contains(abilities, "\x00")) {
		return Move{}, Refusal("the push is not in git's protocol")
	}
	for ability := range strings.FieldsSeq(abilities) {
		if strings.HasPrefix(ability, "push-options") {
			return Move{}, Refusal("push options are not carried: some hosts merge or run what they say")
		}
	}
	if strings.HasPrefix(command, "push-cert") {
		return Move{}, Refusal("a signed push is not carried: push without --signed")
	}
	parts := strings.SplitN(command, " ", 3)
	if len(parts) != 3 || !isID(parts[0]) || !isID(parts[1]) || len(parts[0]) != len(parts[1]) {
		return Move{}, Refusal("the push is not in git's protocol")
	}
	switch ref := parts[2]; {
	case !scope.IsRef(ref):
		return Move{}, Refusal("the push names a ref that is none")
	case !scope.AllowsPush(ref):
		return Move{}, Refusal(fmt.Sprintf("the credential pushes %s, and not %s", strings.Join(scope.Push, ", "), ref))
	case strings.Trim(parts[1], "0") == "":
		return Move{}, Refusal("the credential deletes no ref: " + ref + " is deleted by a person, at the host")
	}
	return Move{Ref: parts[2], Old: parts[0], New: parts[1]}, nil
}

// isID reports whether a text is the name of an object, in SHA-1 or SHA-256.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

const (
	// fatalBand is the band of an answer that ends git with what it says.
	fatalBand = '\x03'
	// maxFatal is the longest text that it says, in bytes.
	maxFatal = 4 << 10
)

// Fatal is the answer to a push that ends git with a text.
func Fatal(text string) []byte {
	text = text[:min(len(text), maxFatal)]
	return fmt.Appendf(nil, "%04x%c%s", lengthSize+1+len(text), fatalBand, text)
}

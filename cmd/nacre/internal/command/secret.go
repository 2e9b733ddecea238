package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// MaxSecretLine is the longest line that is read as a value, in bytes.
const MaxSecretLine = 64 << 10

// Secret reads one value: unseen at a terminal, else the next line of in, which reads
// standard input. what names the value where it is too long.
func (e *Env) Secret(what string, in *bufio.Reader) (nacre.Secret, error) {
	if terminal.Is(e.Stdin) {
		_, _ = fmt.Fprint(e.Stderr, "value: ") // a prompt that is not seen hurts nobody
		text, err := term.ReadPassword(int(e.Stdin.Fd()))
		_, _ = fmt.Fprintln(e.Stderr)
		return nacre.NewSecret(strings.TrimSpace(string(text))), err
	}
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nacre.Secret{}, Usage("%s: a value has at most %d bytes", what, MaxSecretLine)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nacre.Secret{}, err
	}
	return nacre.NewSecret(strings.TrimSpace(string(line))), nil
}

package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

// listTool is the intrinsic behind --list.
const listTool = "list_tools"

// line is the command line.
type line struct {
	help bool
	tool string
	// arguments is JSON, or "-" for standard input.
	arguments string
	hints     nacre.Hints
}

// parse reads flags up to the tool's name. What follows it is never a flag, since it is whatever
// the agent wants to say.
func parse(args []string) (line, error) {
	var l line
	list := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, inline := strings.Cut(args[0], "=")
		args = args[1:]
		switch {
		case name == "--" && !inline:
			return l, l.positional(list, args)
		case (name == "--help" || name == "-h") && !inline:
			return line{help: true}, nil
		case name == "--list" && !inline:
			list = true
		case name == "--dry-run" && !inline:
			l.hints.DryRun = true
		case name == "--justification" || name == "--mode":
			if !inline {
				if len(args) == 0 {
					return l, fmt.Errorf("%s needs a value", name)
				}
				value, args = args[0], args[1:]
			}
			l.hint(name, value)
		default:
			return l, fmt.Errorf("unknown flag %.40q", name)
		}
	}
	return l, l.positional(list, args)
}

func (l *line) hint(name, value string) {
	if name == "--mode" {
		l.hints.Mode = value
		return
	}
	l.hints.Justification = value
}

func (l *line) positional(list bool, args []string) error {
	switch {
	case list && len(args) == 0:
		l.tool, l.arguments = listTool, "{}"
	case list:
		return errors.New("--list stands alone")
	case len(args) != 2:
		return fmt.Errorf("%d arguments: a tool and its arguments in JSON are wanted", len(args))
	case args[0] == "":
		return errors.New("the tool's name is empty")
	default:
		l.tool, l.arguments = args[0], args[1]
	}
	return nil
}

// request reads the arguments and checks their form, so that a slip of the
// shell's quoting is told from a refusal. Whether they are acceptable is the
// door's to say, and to record.
func (l line) request(stdin io.Reader) (message.Request, *nacre.Refusal) {
	arguments := []byte(l.arguments)
	if l.arguments == "-" {
		var err error
		if arguments, err = io.ReadAll(io.LimitReader(stdin, wire.MaxMessage+1)); err != nil {
			return message.Request{}, usage("standard input: " + err.Error())
		}
	}
	if len(arguments) > wire.MaxMessage {
		return message.Request{}, message.Malformed("arguments", fmt.Sprintf("the arguments are over the limit of %d bytes", wire.MaxMessage))
	}
	if arguments = bytes.TrimSpace(arguments); !json.Valid(arguments) || arguments[0] != '{' {
		return message.Request{}, usage("the arguments are not a JSON object")
	}
	request := NewRequest(l.tool, NewCorrelation(), arguments)
	request.Hints = l.hints
	return request, nil
}

func usage(message string) *nacre.Refusal {
	return &nacre.Refusal{Code: CodeUsage, Message: message, Field: "arguments"}
}

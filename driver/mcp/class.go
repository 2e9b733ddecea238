package mcpdriver

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
)

// errRejected leaves a tool out.
var errRejected = errors.New("the tool has no safety class: assign one in the operator's map")

// class decides what a tool can do: the operator's map, then what a trusted
// server says of it, then what the operator wants of tools that nothing classes
// (K-13). Without trust, annotations can only make it stricter: a tool that has some and is not
// read only among them is no READ. The warning
// says why a class is weaker than DESTRUCTIVE without anyone having said so of
// this tool.
func (s Server) class(tool *mcp.Tool) (class nacre.SafetyClass, warning string, err error) {
	if class, ok := s.Classes[tool.Name]; ok {
		return class, "", nil
	}
	hints := tool.Annotations
	switch {
	case hints == nil:
	case hints.DestructiveHint != nil && *hints.DestructiveHint:
		return nacre.Destructive, "", nil
	case !s.Trusted:
	case hints.ReadOnlyHint:
		return nacre.Read, "", nil
	case hints.DestructiveHint != nil:
		return nacre.Write, "", nil
	}
	class, err = s.unannotated()
	if class == nacre.Read && hints != nil && !hints.ReadOnlyHint {
		class = nacre.Write // it does not say of itself that it only reads
	}
	if err == nil && class != nacre.Destructive {
		warning = fmt.Sprintf("the tool has no safety class: %s, as the operator has it for such tools", class)
	}
	return class, warning, err
}

func (s Server) unannotated() (class nacre.SafetyClass, err error) {
	switch s.Unannotated {
	case "":
		return nacre.Destructive, nil
	case Reject:
		return nacre.Destructive, errRejected
	}
	if err := class.UnmarshalText([]byte(s.Unannotated)); err != nil {
		return nacre.Destructive, fmt.Errorf("unannotated: %w, or %q", err, Reject)
	}
	return class, nil
}

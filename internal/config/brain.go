package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Brain says which brain runs where none is named, as `brain = "NAME"`
// or as a table, and how an agent of the operator's own is started.
type Brain struct {
	// Name is the brain; empty means the first one that is installed and signed in.
	Name string `toml:"name"`
	// ACP is an agent that speaks the Agent Client Protocol (M-03).
	ACP ACP `toml:"acp"`

	unknown []toml.Key
}

func (b Brain) check() error {
	const known = "claude, codex, acp, anthropic, openai, replay"
	if b.Name == "" || slices.Contains(strings.Split(known, ", "), b.Name) {
		return nil
	}
	return fmt.Errorf("brain: unknown brain %.40q: one of %s", b.Name, known)
}

// ACP is how an agent of the Agent Client Protocol is started, inside.
type ACP struct {
	// Command is the program, absolute or on the PATH, and its arguments.
	Command []string `toml:"command"`
	// Folders are bound read-only where they are, such as the agent's modules.
	Folders []string `toml:"folders"`
	// Env is added to the agent's environment; no secret belongs there.
	Env map[string]string `toml:"env"`
	// Mode is the agent's mode of permissions; empty means the strictest that is
	// known, "none" that it may have no modes.
	Mode string `toml:"mode"`
}

// UnmarshalTOML reads a name, or the table. Unknown keys are for [Read] to refuse.
func (b *Brain) UnmarshalTOML(value any) error {
	if name, is := value.(string); is {
		b.Name = name
		return nil
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(value); err != nil {
		return fmt.Errorf("brain: write a name, or a table")
	}
	type table Brain
	meta, err := toml.Decode(text.String(), (*table)(b))
	if err != nil {
		return fmt.Errorf("brain: %w", err)
	}
	for _, key := range meta.Undecoded() {
		b.unknown = append(b.unknown, append(toml.Key{"brain"}, key...))
	}
	return nil
}

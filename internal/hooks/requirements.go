package hooks

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// The marks around what nacre adds to Codex's requirements.
const (
	blockBegin = "# nacre hooks: begin"
	blockEnd   = "# nacre hooks: end"
)

// withRequirement is the text of Codex's requirements.toml with this hook of
// nacre's and no other; empty takes it out. All else stays as it is. Hooks that
// somebody else put there are not mixed with ours.
func withRequirement(data []byte, command string) ([]byte, error) {
	rest, err := withoutBlocks(string(data))
	if err != nil {
		return nil, err
	}
	var others map[string]any
	if _, err := toml.Decode(rest, &others); err != nil {
		return nil, fmt.Errorf("is not TOML: mend it first: %w", err)
	}
	if command == "" {
		return []byte(rest), nil
	}
	for _, key := range []string{"hooks", "allow_managed_hooks_only"} {
		if _, there := others[key]; there {
			return nil, fmt.Errorf("has a %s of its own: nacre does not mix its hook with others; take it out, or add the hook by hand", key)
		}
	}
	features := "\n[features]\nhooks = true\n" // without it, each user switches managed hooks off
	if own, there := others["features"]; there {
		set, _ := own.(map[string]any)
		if set["hooks"] != true {
			return nil, errors.New("has [features] without hooks = true, and users could switch the hook off: add that line to it first")
		}
		features = ""
	}
	_, pin, _ := parse(command)
	text := blockBegin + "\nallow_managed_hooks_only = true\n" + blockEnd + "\n" + rest
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		text += "\n"
	}
	text += fmt.Sprintf("%s%s\n[hooks]\nmanaged_dir = %s\n\n[[hooks.PreToolUse]]\nmatcher = \"*\"\n\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n%s\n",
		blockBegin+"\n", features, basic(filepath.Dir(pin)), basic(command), Timeout, blockEnd)
	if _, err := toml.Decode(text, &others); err != nil {
		return nil, fmt.Errorf("cannot take the hook: %w", err)
	}
	return []byte(text), nil
}

// basic is a string as TOML writes it.
func basic(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func withoutBlocks(text string) (string, error) {
	var rest strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		switch strings.TrimSpace(line) {
		case blockBegin:
			if inside {
				return "", errors.New("has nacre's marks in disorder: mend it by hand")
			}
			inside = true
			continue
		case blockEnd:
			if !inside {
				return "", errors.New("has nacre's marks in disorder: mend it by hand")
			}
			inside = false
			continue
		}
		if !inside {
			rest.WriteString(line)
		}
	}
	if inside {
		return "", errors.New("has nacre's marks in disorder: mend it by hand")
	}
	return rest.String(), nil
}

// requirementsOurs are nacre's hooks in Codex's requirements.
func requirementsOurs(data []byte) ([]string, error) {
	var f struct {
		Hooks struct {
			PreToolUse []struct {
				Hooks []struct {
					Command string `toml:"command"`
				} `toml:"hooks"`
			}
		} `toml:"hooks"`
	}
	if _, err := toml.Decode(string(data), &f); err != nil {
		return nil, fmt.Errorf("is not TOML: %w", err)
	}
	var found []string
	for _, group := range f.Hooks.PreToolUse {
		for _, h := range group.Hooks {
			if _, _, ok := parse(h.Command); ok {
				found = append(found, h.Command)
			}
		}
	}
	return found, nil
}

package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// span is a member of an object or an element of an array within its text.
type span struct {
	key string
	// from is where the member begins, value where its value does, to where it ends.
	from, value, to int
}

// spans are the members of an object, or the elements of an array, whose text
// this is. The text has passed json.Valid. A key that comes twice is an error:
// which one an agent reads is its own matter.
func spans(text []byte, open json.Delim) ([]span, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if token != open {
		return nil, fmt.Errorf("has something else where it should have a %q", open)
	}
	var all []span
	seen := map[string]bool{}
	for decoder.More() {
		var s span
		if open == '{' {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			s.key, _ = key.(string) // an object's keys are
			if seen[s.key] {
				return nil, fmt.Errorf("has the key %.80q twice", s.key)
			}
			seen[s.key] = true
			s.from = int(decoder.InputOffset()) - quotedLength(text[:decoder.InputOffset()])
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, err
		}
		s.to = int(decoder.InputOffset())
		s.value = s.to - len(raw)
		if open == '[' {
			s.from = s.value
		}
		all = append(all, s)
	}
	return all, nil
}

// quotedLength is how long the quoted string is that a text ends with.
func quotedLength(text []byte) int {
	for i := len(text) - 2; i >= 0; i-- {
		if text[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && text[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return len(text) - i
		}
	}
	return len(text)
}

// member is the value of an object's key; nil where there is none.
func member(object []byte, key string) ([]byte, error) {
	all, err := spans(object, '{')
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.key == key {
			return object[s.value:s.to], nil
		}
	}
	return nil, nil
}

// withMember is an object with a key's value set; nil takes the key out. All
// other bytes stay as they are. depth is how deep the object lies in its file.
func withMember(object []byte, key string, value []byte, depth int) ([]byte, error) {
	all, err := spans(object, '{')
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		switch {
		case s.key != key:
		case value == nil:
			return without(object, all, i), nil
		default:
			return replace(object, s.value, s.to, value), nil
		}
	}
	if value == nil {
		return object, nil
	}
	name, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	return appended(object, all, append(append(name, ": "...), value...), depth), nil
}

// appended is an object or array with one more at its end.
func appended(text []byte, all []span, one []byte, depth int) []byte {
	indent := "\n" + strings.Repeat("  ", depth+1)
	if len(all) == 0 {
		last := len(text) - 1
		return replace(text[:1:1], 1, 1, []byte(indent+string(one)+"\n"+strings.Repeat("  ", depth)+string(text[last:])))
	}
	end := all[len(all)-1].to
	return replace(text, end, end, []byte(","+indent+string(one)))
}

// without is an object or array with one fewer.
func without(text []byte, all []span, i int) []byte {
	switch {
	case len(all) == 1:
		return []byte{text[0], text[len(text)-1]}
	case i > 0:
		return replace(text, all[i-1].to, all[i].to, nil)
	}
	return replace(text, all[0].from, all[1].from, nil)
}

func replace(text []byte, from, to int, by []byte) []byte {
	out := append([]byte{}, text[:from]...)
	return append(append(out, by...), text[to:]...)
}

// document cuts a settings file into its one object and what is around it.
func document(data []byte) (before, object, after []byte, err error) {
	object = bytes.TrimSpace(data)
	if len(object) == 0 && len(data) == 0 {
		return nil, []byte("{}"), []byte("\n"), nil
	}
	if !json.Valid(data) || object[0] != '{' {
		return nil, nil, nil, errors.New("is not one JSON object: mend it first")
	}
	at := bytes.Index(data, object)
	return data[:at], object, data[at+len(object):], nil
}

// entry is what nacre adds to the hooks of an agent, in the file's own layout.
func entry(command string) []byte {
	quoted := &bytes.Buffer{}
	encoder := json.NewEncoder(quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(command) // a string always can
	return fmt.Appendf(nil, `{
        "matcher": "*",
        "hooks": [
          { "type": "command", "command": %s, "timeout": %d }
        ]
      }`, bytes.TrimSpace(quoted.Bytes()), Timeout)
}

// commandsOf are the commands of one element of PreToolUse.
func commandsOf(element []byte) []string {
	var e struct {
		Hooks []struct {
			Command string `json:"command"`
		} `json:"hooks"`
	}
	if json.Unmarshal(element, &e) != nil {
		return nil
	}
	var commands []string
	for _, h := range e.Hooks {
		commands = append(commands, h.Command)
	}
	return commands
}

// oursIn are nacre's hooks in the text of a settings file.
func oursIn(data []byte) ([]string, error) {
	_, object, _, err := document(data)
	if err != nil {
		return nil, err
	}
	list, _, err := preToolUse(object)
	if list == nil || err != nil {
		return nil, err
	}
	all, err := spans(list, '[')
	if err != nil {
		return nil, fmt.Errorf("hooks.PreToolUse: it %w", err)
	}
	var found []string
	for _, s := range all {
		for _, command := range commandsOf(list[s.value:s.to]) {
			if _, _, ok := parse(command); ok {
				found = append(found, command)
			}
		}
	}
	return found, nil
}

// preToolUse finds the list of hooks and the object that it is in.
func preToolUse(object []byte) (list, hooks []byte, err error) {
	if hooks, err = member(object, "hooks"); hooks == nil || err != nil {
		return nil, nil, err
	}
	if list, err = member(hooks, "PreToolUse"); err != nil {
		err = fmt.Errorf("hooks: it %w", err)
	}
	return list, hooks, err
}

// withHook is the text of a settings file with this hook of nacre's and no
// other one; empty takes nacre's out. All else stays as it is.
func withHook(data []byte, command string) ([]byte, error) {
	before, object, after, err := document(data)
	if err != nil {
		return nil, err
	}
	list, hooks, err := preToolUse(object)
	if err != nil {
		return nil, err
	}
	had := hooks != nil
	if list == nil {
		list = []byte("[]")
	}
	if hooks == nil {
		hooks = []byte("{}")
	}
	if list, err = withEntry(list, command); err != nil {
		return nil, fmt.Errorf("hooks.PreToolUse: it %w", err)
	}
	if string(list) == "[]" {
		list = nil
	}
	if hooks, err = withMember(hooks, "PreToolUse", list, 1); err != nil {
		return nil, err
	}
	if string(hooks) == "{}" && (had || list == nil) {
		hooks = nil
	}
	if object, err = withMember(object, "hooks", hooks, 0); err != nil {
		return nil, err
	}
	return append(append(append([]byte{}, before...), object...), after...), nil
}

func withEntry(list []byte, command string) ([]byte, error) {
	for {
		all, err := spans(list, '[')
		if err != nil {
			return nil, err
		}
		at := -1
		for i, s := range all {
			for _, c := range commandsOf(list[s.value:s.to]) {
				if _, _, ok := parse(c); ok {
					at = i
				}
			}
		}
		if at < 0 && command == "" {
			return list, nil
		}
		if at < 0 {
			return appended(list, all, entry(command), 2), nil
		}
		if len(commandsOf(list[all[at].value:all[at].to])) != 1 {
			return nil, errors.New("has an element in which nacre's hook lies with others: take it out by hand")
		}
		list = without(list, all, at)
	}
}

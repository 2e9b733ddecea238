package plugin

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxDepth = 64 // levels of nesting in a manifest

// A reader takes the value of one key; path names it in errors.
type reader func(raw json.RawMessage, path string) error

// fields are the keys an object may have.
type fields map[string]reader

// object reads an object with exactly these keys allowed.
func object(allowed fields) reader {
	return func(raw json.RawMessage, path string) error { return readObject(raw, path, allowed) }
}

// readObject hands each member to its reader, in the order of the file.
func readObject(raw json.RawMessage, path string, allowed fields) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s: not an object: write it between { and }", orTop(path))
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", orTop(path), err)
		}
		key, _ := t.(string)
		read, ok := allowed[key]
		if !ok {
			return fmt.Errorf("unknown key %.80q: known here are %s",
				join(path, key), strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("%s: %w", join(path, key), err)
		}
		if err := read(value, join(path, key)); err != nil {
			return err
		}
	}
	return nil
}

// keys are the names of an object's members, at most maxListed.
func keys(raw json.RawMessage, path string) ([]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%s: not an object: write it between { and }", path)
	}
	if len(members) > maxListed {
		return nil, fmt.Errorf("%s: %d keys, at most %d", path, len(members), maxListed)
	}
	return slices.Sorted(maps.Keys(members)), nil
}

func readArray(raw json.RawMessage, path string, limit int, read reader) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil || items == nil {
		return fmt.Errorf("%s: not an array: write it between [ and ]", path)
	}
	if len(items) > limit {
		return fmt.Errorf("%s: %d items, at most %d", path, len(items), limit)
	}
	for i, item := range items {
		if err := read(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// clip keeps the beginning of a path, which says where to look.
func clip(path string) string { return path[:min(len(path), 80)] }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func orTop(path string) string {
	if path == "" {
		return "manifest"
	}
	return path
}

// value reads one JSON value of exactly T; null is not one.
func value[T any](to *T, what string) reader {
	return func(raw json.RawMessage, path string) error {
		if string(raw) == "null" || json.Unmarshal(raw, to) != nil {
			return fmt.Errorf("%s: not %s", path, what)
		}
		return nil
	}
}

func boolean(to *bool) reader { return value(to, "true or false, which stand without quotes") }

func integer(to *int, limit int) reader {
	return func(raw json.RawMessage, path string) error {
		if err := value(to, "a whole number: write digits without quotes")(raw, path); err != nil {
			return err
		}
		if *to < 0 || *to > limit {
			return fmt.Errorf("%s: %d is not within 0–%d", path, *to, limit)
		}
		return nil
	}
}

func text(to *string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := value(to, "a string: write it in double quotes")(raw, path); err != nil {
			return err
		}
		if len(*to) > maxText {
			return fmt.Errorf("%s: %d bytes, at most %d", path, len(*to), maxText)
		}
		return nil
	}
}

func list(to *[]string) reader {
	return func(raw json.RawMessage, path string) error {
		return readArray(raw, path, maxListed, func(raw json.RawMessage, path string) error {
			var s string
			err := text(&s)(raw, path)
			*to = append(*to, s)
			return err
		})
	}
}

func formed(to *[]string, form func() *regexp.Regexp, what string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := list(to)(raw, path); err != nil {
			return err
		}
		for i, s := range *to {
			if !form().MatchString(s) {
				return fmt.Errorf("%s[%d]: %.80q: use %s", path, i, s, what)
			}
		}
		return nil
	}
}

// enum reads a name that the type itself knows.
func enum(to encoding.TextUnmarshaler) reader {
	return func(raw json.RawMessage, path string) error {
		var s string
		if err := text(&s)(raw, path); err != nil {
			return err
		}
		if err := to.UnmarshalText([]byte(s)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
}

// schema keeps a JSON Schema as it stands; the kernel compiles it.
func schema(to *json.RawMessage) reader {
	return func(raw json.RawMessage, path string) error {
		if len(raw) == 0 || raw[0] != '{' {
			return fmt.Errorf("%s: not an object: write it between { and }", path)
		}
		*to = slices.Clone(raw)
		return nil
	}
}

// checkJSON refuses what decoders disagree about: bad UTF-8, duplicate keys
// (also in another case), deep nesting, anything after the value.
func checkJSON(data []byte) error {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("the file is empty: nacre plugin new makes a manifest")
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return errors.New("begins with a byte order mark: save it as UTF-8 without one")
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return errors.New("not valid UTF-8: save it as UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // how large one may be is for who reads it
	line := func() int { return 1 + bytes.Count(data[:dec.InputOffset()], []byte("\n")) }
	if err := checkValue(dec, "", 0); err != nil {
		return fmt.Errorf("line %d: %w", line(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: something follows the JSON value: leave it out", line())
	}
	return nil
}

func checkValue(dec *json.Decoder, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: nested deeper than %d levels: write it flatter", clip(path), maxDepth)
	}
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	open, nested := t.(json.Delim)
	if !nested {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if open == '{' {
			k, err := dec.Token()
			if err != nil {
				return fmt.Errorf("not JSON: %w", err)
			}
			key, _ := k.(string)
			at = join(path, key)
			if folded := strings.ToLower(key); seen[folded] {
				return fmt.Errorf("key %.80q comes twice: keep one", at)
			} else {
				seen[folded] = true
			}
		}
		if err := checkValue(dec, at, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

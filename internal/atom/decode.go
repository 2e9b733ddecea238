package atom

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// The shape of a file: the library that reads it takes time and memory that
// grow with the square of these.
const (
	maxParts = 32 // of one dotted key
	maxNest  = 32 // of arrays and tables in a value
)

// Keys are the keys that a file may have, tables included. Spelling counts,
// case included.
type Keys map[string]bool

// KeySet reads a list of dotted keys, parted by white space.
func KeySet(list string) Keys {
	set := Keys{}
	for _, key := range strings.Fields(list) {
		set[key] = true
		table, _, _ := strings.Cut(key, ".")
		set[table] = true
	}
	return set
}

// Decode reads TOML of at most MaxFile bytes in which every key is known. An
// error names the line, and for an unknown key the one that may be meant.
func Decode(data []byte, into any, known Keys) (toml.MetaData, error) {
	if len(data) > MaxFile {
		return toml.MetaData{}, fmt.Errorf("more than %d bytes", MaxFile)
	}
	if err := errors.Join(CheckText(data), CheckShape(data)); err != nil {
		return toml.MetaData{}, err
	}
	meta, err := toml.Decode(string(data), into)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) && null().MatchString(lineAt(data, parse.Position.Line)) {
			return meta, fmt.Errorf("line %d: TOML has no null: leave the key out, absent means none (%w)", parse.Position.Line, err)
		}
		return meta, WrongType(err)
	}
	for _, key := range meta.Keys() {
		if !known[strings.Join(key, ".")] {
			return meta, fmt.Errorf("%sunknown key %q%s", LineOf(data, key), clip(key.String()), suggestion(key.String(), known))
		}
	}
	return meta, nil
}

// DecodeOwn reads TOML that only the operator and nacre write, such as what was approved. A key that
// into does not have is an error, which names its line.
func DecodeOwn(data []byte, into any) error {
	if err := CheckText(data); err != nil {
		return err
	}
	meta, err := toml.Decode(string(data), into)
	if err != nil {
		return WrongType(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return fmt.Errorf("%sunknown key %q", LineOf(data, unknown[0]), unknown[0])
	}
	return nil
}

// CheckText refuses a file that is not UTF-8. The decoder takes one with the mark of UTF-16, and
// reads what follows as if it were none.
func CheckText(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8 text: save it as UTF-8")
	}
	return nil
}

// CheckShape refuses, in linear time, TOML whose keys or values are nested
// more than 32 deep. Whoever reads TOML that an agent or a repository wrote
// asks it first: a quarter of a megabyte of dots would otherwise take minutes
// and all memory to read.
func CheckShape(data []byte) error {
	line, parts, depth := 1, 0, 0
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case '"', '\'':
			end := endOfString(data, i)
			line += bytes.Count(data[i:end], []byte("\n"))
			i = end
			continue
		case '#':
			for i < len(data) && data[i] != '\n' {
				i++
			}
			continue
		case '.':
			parts++
		case '[', '{':
			depth++
			parts = 0
		case ']', '}':
			depth = max(depth-1, 0)
			parts = 0
		case '=', ',':
			parts = 0
		case '\n':
			line++
			parts = 0
		}
		if parts >= maxParts || depth > maxNest {
			return fmt.Errorf("line %d: a key or a value is nested more than %d deep", line, maxNest)
		}
		i++
	}
	return nil
}

// endOfString is where a string that begins at i ends, as TOML has it: a
// short one with its line at the latest.
func endOfString(data []byte, i int) int {
	quote := data[i]
	long := bytes.HasPrefix(data[i:], []byte{quote, quote, quote})
	if long {
		i += 3
	} else {
		i++
	}
	for i < len(data) {
		switch c := data[i]; {
		case c == '\\' && quote == '"':
			i++ // the next character is part of the string
		case c == '\n' && !long:
			return i
		case c == quote && !long:
			return i + 1
		case c == quote && bytes.HasPrefix(data[i:], []byte{quote, quote, quote}):
			for i += 3; i < len(data) && data[i] == quote; i++ {
				continue // up to two more belong to the string
			}
			return i
		}
		i++
	}
	return len(data)
}

var null = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[=\[,])\s*null\s*(?:[#,\]}]|$)`) })

// lineAt is one line of a file, from 1.
func lineAt(data []byte, number int) string {
	n := 0
	for line := range strings.Lines(string(data)) {
		if n++; n == number {
			return line
		}
	}
	return ""
}

// LineOf says in which line a key stands, as "line 3: ", or nothing where that cannot be
// told.
func LineOf(data []byte, key toml.Key) string {
	want := strings.Join(key, ".")
	table, inside, number := "", "", 0
	for line := range strings.Lines(string(data)) {
		number++
		if inside != "" { // a text of several lines
			if strings.Contains(line, inside) {
				inside = ""
			}
			continue
		}
		trimmed := strings.TrimSpace(line)
		name, value, assigned := strings.Cut(trimmed, "=")
		switch {
		case strings.HasPrefix(trimmed, "#"):
			continue
		case strings.HasPrefix(trimmed, "["):
			name, _, _ = strings.Cut(strings.Trim(trimmed, "["), "]")
			table = plainKey(name) + "."
			if table == want+"." {
				return fmt.Sprintf("line %d: ", number)
			}
		case assigned && strings.HasPrefix(want+".", strings.TrimPrefix(table, ".")+plainKey(name)+"."):
			return fmt.Sprintf("line %d: ", number)
		}
		for _, quote := range []string{`"""`, `'''`} {
			if assigned && strings.Count(value, quote) == 1 {
				inside = quote
			}
		}
	}
	return ""
}

// plainKey is a key without white space and quotes around its parts.
func plainKey(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(part), `"'`)
	}
	return strings.Join(parts, ".")
}

// suggestion names the key that was meant, and the keys that there are (U-32).
func suggestion(key string, known Keys) string {
	meant, list := Nearest(key, maps.Keys(known)), beside(key, known)
	switch {
	case meant == "" && list == "":
		return ""
	case meant == "":
		return "; known here are " + list
	case list == "":
		return fmt.Sprintf("; did you mean %q?", meant)
	default:
		return fmt.Sprintf("; did you mean %q? Known here are %s", meant, list)
	}
}

// beside lists the keys that could stand where an unknown one does.
func beside(key string, known Keys) string {
	table := key[:strings.LastIndex(key, ".")+1]
	var list []string
	for candidate := range known {
		if name, inside := strings.CutPrefix(candidate, table); inside && !strings.Contains(name, ".") {
			list = append(list, candidate)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

package planted

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed obeyed.txt
var obeyedText string

//go:embed python.txt
var pythonText string

// table is the list as it is asked: by whole names first, and by their parts.
type table struct {
	names, dirs, tops      map[string]Class
	ends, dirEnds, topEnds map[string]Class
	stems                  map[string]Class
	begins                 []beginning
	python                 map[string]bool
}

// beginning is that of base names.
type beginning struct {
	text  string
	class Class
}

// obeyed is the list, read when it is first asked: most commands never do.
var obeyed = sync.OnceValue(func() *table { //nolint:gochecknoglobals // read once, and never changed
	t, err := parse(obeyedText, pythonText)
	if err != nil {
		panic("planted: the list that was built in: " + err.Error())
	}
	return t
})

// parse reads the list and Python's names.
func parse(list, python string) (*table, error) {
	t := &table{
		names: map[string]Class{}, dirs: map[string]Class{}, tops: map[string]Class{}, ends: map[string]Class{},
		dirEnds: map[string]Class{}, topEnds: map[string]Class{}, stems: map[string]Class{}, python: map[string]bool{},
	}
	var class Class
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "["); ok {
			kind, program, _ := strings.Cut(rest, "] ")
			if err := class.Kind.UnmarshalText([]byte(kind)); err != nil {
				return nil, err
			}
			class.Program = program
			continue
		}
		if err := t.add(class, strings.Fields(line)); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(python) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			for _, name := range fields[1:] {
				t.python[name] = true
			}
		}
	}
	return t, nil
}

func (t *table) add(class Class, fields []string) error {
	loose := class
	loose.Loose = true
	for _, name := range fields[1:] {
		switch fields[0] {
		case "dir":
			t.dirs[name] = class
		case "dir-end":
			t.dirEnds[name] = class
		case "name":
			t.names[name] = class
		case "begin":
			t.begins = append(t.begins, beginning{name, loose})
		case "end":
			t.ends[name] = loose
		case "stem":
			t.stems[name] = class
		case "top":
			t.tops[name] = class
		case "top-end":
			t.topEnds[name] = loose
		default:
			return fmt.Errorf("%q is not a kind of name", fields[0])
		}
	}
	return nil
}

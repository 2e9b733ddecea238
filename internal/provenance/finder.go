package provenance

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// finder walks the arguments of one call, which are valid JSON.
type finder struct {
	scanner
	ledger   *Ledger
	declared *Declared
	depth    int
	values   []value
	full     bool
}

// value walks one value at a path. Sinks are the rests of the paths that lead
// into it; sink says that it is in one.
func (f *finder) value(path string, sinks []string, sink bool) {
	if f.full || (!sink && len(sinks) == 0) {
		f.skip()
		return
	}
	c := f.peek()
	container := c == '{' || c == '['
	if container && f.depth < maxDepth {
		f.depth++
		f.container(c, path, sinks, sink)
		f.depth--
		return
	}
	raw := f.skip()
	switch {
	case container:
		// What is too deep to be looked at may be anything.
		f.put(value{origin: nacre.Origin{Argument: path}})
	case sink:
		f.see(path, raw)
	}
}

func (f *finder) container(c byte, path string, sinks []string, sink bool) {
	if f.empty() {
		if sink {
			root, kind, _ := f.declared.at(path)
			f.put(value{origin: nacre.Origin{Argument: path}, root: root, kind: kind, empty: true})
		}
		return
	}
	for i, more := 0, true; more; i, more = i+1, f.next() {
		if c == '[' {
			// A path goes through a list to each of its elements, or to one by its number.
			step := strconv.Itoa(i)
			within, is := follow(sinks, step)
			f.value(join(path, step), union(within, sinks), sink || is)
			continue
		}
		raw, _ := f.key()
		key := string(unescape(raw))
		within, is := follow(sinks, key)
		f.value(join(path, key), within, sink || is)
	}
}

// follow returns the rests of the paths that go on through a key, and whether
// one of them ends there.
func follow(sinks []string, key string) (within []string, is bool) {
	for _, sink := range sinks {
		rest, ok := strings.CutPrefix(sink, key)
		switch {
		case ok && rest == "":
			is = true
		case ok && rest[0] == '.':
			within = append(within, rest[1:])
		}
	}
	return within, is
}

// union keeps the rests of a path apart, which would double with every list
// that is nested in a list.
func union(within, sinks []string) []string {
	if len(within) == 0 {
		return sinks
	}
	for _, sink := range sinks {
		if !slices.Contains(within, sink) {
			within = append(within, sink)
		}
	}
	return within
}

func join(path, step string) string {
	if path == "" {
		return step
	}
	return path + "." + step
}

// put keeps a value. The last there is room for says of the rest that it was seen nowhere.
func (f *finder) put(v value) {
	if len(f.values) == MaxOrigins-1 {
		v, f.full = value{origin: nacre.Origin{Argument: v.origin.Argument}}, true
	}
	f.values = append(f.values, v)
}

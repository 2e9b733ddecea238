package verify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
)

// The limits of quality::constructor-pattern where the task gives none (S-04).
const (
	DefaultMaxFileLines     = 200
	DefaultMaxFunctionLines = 30
	// maxCode is the largest file in which functions are looked for, in bytes.
	maxCode = 2 << 20
	// sniffed is how much of a file tells text from other bytes, as git does it.
	sniffed = 8000
)

// constructorPattern is the verifier of quality::constructor-pattern. Every text that was touched
// is short, and so is every function of its Go, which the language's own parser finds. Of other
// languages the file's length alone is judged. Lock files, which nobody can split, are left out.
func constructorPattern(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (v Verdict, err error) {
	root, err := openTree(s.Tree)
	if err != nil {
		return Verdict{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	m := measure{root: root, file: orElse(s.Task.MaxFileLines, DefaultMaxFileLines), function: orElse(s.Task.MaxFunctionLines, DefaultMaxFunctionLines)}
	for _, c := range s.delta.changes {
		if err := ctx.Err(); err != nil {
			return Verdict{}, err
		}
		if c.kind == deleted || c.is.link || isLock(c.path) {
			continue
		}
		if err := m.touched(c.path, c.is.size); err != nil {
			return Verdict{}, err
		}
	}
	return verdict(fmt.Sprintf("touched files have at most %d lines, functions of Go %d", m.file, m.function), m.findings), nil
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func isLock(name string) bool {
	rule := gate.Rule{Kind: gate.NoDepBump}
	return !rule.Place(name, gate.World{}).Allowed && (strings.Contains(strings.ToLower(path.Base(name)), "lock") || strings.HasSuffix(name, ".sum"))
}

// measure holds files against limits.
type measure struct {
	root           *os.Root
	file, function int
	findings       []string
}

func (m *measure) found(format string, values ...any) {
	m.findings = append(m.findings, fmt.Sprintf(format, values...))
}

func (m *measure) touched(name string, size int64) error {
	f, err := openFile(m.root, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := bufio.NewReaderSize(f, 64<<10)
	head, err := r.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	isGo := strings.EqualFold(path.Ext(name), ".go")
	if !isSource(name) && bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	if !isGo || size > maxCode {
		lines, err := countLines(r, m.file)
		if lines > m.file {
			m.found("%q has more than %d lines", name, m.file)
		} else if isGo {
			m.found("%q has %d bytes: too many to look for functions in", name, size)
		}
		return err
	}
	source, err := io.ReadAll(io.LimitReader(r, maxCode+1))
	if err != nil {
		return err
	}
	m.source(name, source)
	return nil
}

func (m *measure) source(name string, source []byte) {
	if lines, _ := countLines(bytes.NewReader(source), len(source)); lines > m.file { // memory can be read
		m.found("%q has %d lines, %d are allowed", name, lines, m.file)
	}
	functions, err := goFunctions(source)
	if err != nil {
		m.found("%q cannot be read as Go: %v", name, err)
	}
	for _, f := range functions {
		if lines := f.last - f.first + 1; lines > m.function {
			m.found("%q line %d: %s has %d lines, %d are allowed", name, f.first, f.name, lines, m.function)
		}
	}
}

// countLines counts up to one over most. A line ends with a line feed, a
// carriage return, both, or one of the separators of Unicode.
func countLines(r io.Reader, most int) (int, error) {
	const separator = "\xe2\x80" // then a8 or a9
	buffer := make([]byte, 64<<10)
	lines, open := 0, false
	var one, two byte // what came before
	for lines <= most {
		n, err := r.Read(buffer)
		for _, b := range buffer[:n] {
			switch {
			case b == '\n' && one == '\r':
			case b == '\n', b == '\r', (b == 0xa8 || b == 0xa9) && string([]byte{two, one}) == separator:
				lines, open = lines+1, false
			default:
				open = true
			}
			two, one = one, b
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return lines, err
		}
	}
	if open {
		lines++
	}
	return lines, nil
}

// isSource tells a source by its name: it counts as text whatever its bytes are.
func isSource(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".go", ".rs", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".py", ".pyi", ".pyw":
		return true
	}
	return false
}

// span is one function: the lines from its keyword to its last, from 1.
type span struct {
	name        string
	first, last int
}

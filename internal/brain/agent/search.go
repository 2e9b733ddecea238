//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of searching.
const (
	maxPattern  = 1024
	maxWalked   = 200_000
	maxFound    = 500
	maxFoundRow = 300
	maxSearched = 8 << 20
	// maxGrepped is how much one search reads in all.
	maxGrepped = 512 << 20
	// binaryHead is where a NUL tells that a file is no text.
	binaryHead = 8 << 10
)

// errEnough ends a walk that has found what it may.
var errEnough = errors.New("enough")

// glob names the files whose path fits a pattern. ** is any number of folders.
func (t Tools) glob(ctx context.Context, input json.RawMessage) (Result, error) {
	var pattern string
	root := "."
	if err := brain.Fields(input, map[string]any{"pattern": &pattern, "path": &root}); err != nil {
		return Result{}, err
	}
	fits, err := pathPattern(pattern)
	if err != nil {
		return Result{}, err
	}
	var found []string
	more, err := t.walk(ctx, root, func(_, rel string) error {
		if !fits(rel) {
			return nil
		}
		if len(found) == maxFound {
			return errEnough
		}
		found = append(found, rel)
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	slices.Sort(found)
	return Result{Text: rows(found, more)}, nil
}

// grep gives the lines that fit, as path:line:text.
func (t Tools) grep(ctx context.Context, input json.RawMessage) (Result, error) {
	var pattern, only string
	root := "."
	if err := brain.Fields(input, map[string]any{"pattern": &pattern, "path": &root, "files": &only}); err != nil {
		return Result{}, err
	}
	if pattern == "" || len(pattern) > maxPattern {
		return Result{}, fmt.Errorf("pattern of %d bytes: use 1–%d", len(pattern), maxPattern)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Result{}, err
	}
	fits := func(string) bool { return true }
	if only != "" {
		if fits, err = pathPattern(only); err != nil {
			return Result{}, err
		}
	}
	s := search{tools: t, re: re}
	more, err := t.walk(ctx, root, func(path, rel string) error {
		if !fits(rel) {
			return nil
		}
		return s.file(path, rel)
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Text: rows(s.found, more)}, nil
}

type search struct {
	tools Tools
	re    *regexp.Regexp
	found []string
	read  int64
}

// file looks through one file. What cannot be read, or is no text, has no lines.
func (s *search) file(path, rel string) error {
	f, err := s.tools.open(path)
	if err != nil {
		return nil // it is not for us
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil || info.Size() > maxSearched {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSearched))
	if err != nil || bytes.IndexByte(data[:min(len(data), binaryHead)], 0) >= 0 {
		return nil
	}
	if s.read += int64(len(data)); s.read > maxGrepped {
		return errEnough
	}
	for n := 1; len(data) > 0; n++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		if !s.re.Match(line) {
			continue
		}
		if len(s.found) == maxFound {
			return errEnough
		}
		s.found = append(s.found, fmt.Sprintf("%s:%d:%s", rel, n, clip(string(line), maxFoundRow)))
	}
	return nil
}

// walk visits the regular files below root in order, follows no links, and
// passes .git over. It reports whether there was more than it may visit.
func (t Tools) walk(ctx context.Context, root string, visit func(path, rel string) error) (more bool, err error) {
	start, err := t.path(root)
	if err != nil {
		return false, err
	}
	if real, err := filepath.EvalSymlinks(start); err == nil {
		start = real
	}
	walked := 0
	err = filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		switch walked++; {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == start:
			return err
		case err != nil:
			return nil //nolint:nilerr // a folder that cannot be read holds nothing for us
		case walked > maxWalked:
			return errEnough
		case d.IsDir() && d.Name() == ".git" && path != start:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(start, path)
		if err != nil || rel == "." {
			rel = d.Name()
		}
		return visit(path, rel)
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return false, err
}

func rows(found []string, more bool) string {
	if len(found) == 0 && !more {
		return "[nothing found]"
	}
	text := strings.ToValidUTF8(strings.Join(found, "\n"), "\uFFFD")
	if more {
		text = joinLines(text, "[there is more: search for less]")
	}
	return text
}

// pathPattern compiles a pattern to a match of relative paths, in linear time.
// A pattern without a slash fits the names of files in any folder.
func pathPattern(pattern string) (func(rel string) bool, error) {
	if pattern == "" || len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes: use 1–%d", len(pattern), maxPattern)
	}
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	var re strings.Builder
	for rest := strings.TrimPrefix(pattern, "./"); rest != ""; {
		size := 1
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**/"):
			re.WriteString(`(?:[^/]+/)*`)
			size = 3
		case strings.HasPrefix(rest, "**"):
			re.WriteString(`.*`)
			size = 2
		case c == '*':
			re.WriteString(`[^/]*`)
		case c == '?':
			re.WriteString(`[^/]`)
		case c == '[' && strings.Contains(rest, "]"):
			size = strings.Index(rest, "]") + 1
			re.WriteString(strings.Replace(rest[:size], "[!", "[^", 1))
		case c == '{' && strings.Contains(rest, "}"):
			size = strings.Index(rest, "}") + 1
			var either []string
			for _, word := range strings.Split(rest[1:size-1], ",") {
				either = append(either, regexp.QuoteMeta(word))
			}
			re.WriteString("(?:" + strings.Join(either, "|") + ")")
		default:
			re.WriteString(regexp.QuoteMeta(rest[:1]))
		}
		rest = rest[size:]
	}
	compiled, err := regexp.Compile(`(?s)\A(?:` + re.String() + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("pattern %.80q: %w", pattern, err)
	}
	return compiled.MatchString, nil
}

// firstLines reads the lines of a small text file, for what the loop itself needs.
func firstLines(name string, limit int64) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	var lines []string
	scanner := bufio.NewScanner(io.LimitReader(f, limit))
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}

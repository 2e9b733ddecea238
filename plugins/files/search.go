package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
)

// Limits of a search. RE2 takes time in proportion to text × program.
const (
	maxPattern   = 500      // bytes
	maxProgram   = 1000     // instructions of a compiled pattern
	maxSearched  = 64 << 20 // bytes of all files
	maxFileBytes = 4 << 20  // bytes of a file that is searched
	maxLine      = 16 << 10 // bytes of a line that are searched
	maxMatches   = 500      // of one answer
	maxShown     = 300      // bytes of a line that are shown
	maxTime      = 15 * time.Second
)

type searchArgs struct {
	Pattern    string `json:"pattern"`
	Literal    bool   `json:"literal"`
	IgnoreCase bool   `json:"ignore_case"`
	Path       string `json:"path"`
	Name       string `json:"name"` // glob of base names
	Limit      int    `json:"limit"`
}

type match struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"` // of bytes, from 1
	Text   string `json:"text"`
}

// findings is what files_search tells.
type findings struct {
	Matches  []match `json:"matches"`
	Searched int     `json:"files_searched"`
	// Skipped counts files that are binary, too large, or could not be read.
	Skipped int `json:"files_skipped"`
	// Incomplete says what was not looked at.
	Incomplete string `json:"incomplete,omitempty"`
}

func search(ctx context.Context, root *os.Root, args searchArgs) (any, error) {
	name, err := parsePath(args.Path)
	if err != nil {
		return nil, err
	}
	pattern, err := compile(args)
	if err != nil {
		return nil, err
	}
	if _, err := path.Match(args.Name, "x"); err != nil {
		return nil, refuse("NAME", "name is a pattern such as *.go")
	}
	s := &searcher{findings: findings{Matches: []match{}}, pattern: pattern, glob: args.Name, limit: args.Limit}
	if s.limit <= 0 || s.limit > maxMatches {
		s.limit = maxMatches
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	err = s.under(limited, root, name)
	if errors.Is(err, errEnough) {
		err = nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		s.Incomplete, err = "it took too long: name a folder, or a simpler pattern", nil
	}
	return s.findings, err
}

// compile refuses patterns that would take long for their size.
func compile(args searchArgs) (*regexp.Regexp, error) {
	text := args.Pattern
	if text == "" || len(text) > maxPattern {
		return nil, refuse("PATTERN", "A pattern has 1 to %d bytes", maxPattern)
	}
	if args.Literal {
		text = regexp.QuoteMeta(text)
	}
	if args.IgnoreCase {
		text = "(?i)" + text
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, refuse("PATTERN", "The pattern is not RE2: %s; set \"literal\" to look for the text itself", errorCode(err))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, refuse("PATTERN", "The pattern is too large: repeat less")
	}
	return regexp.Compile(text)
}

func errorCode(err error) string {
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return bad.Code.String()
	}
	return "it cannot be read"
}

type searcher struct {
	findings
	pattern *regexp.Regexp
	glob    string
	limit   int
	bytes   int64
}

// under searches a folder, or the one file that is named.
func (s *searcher) under(ctx context.Context, root *os.Root, name string) error {
	if name != "." {
		at, err := locate(root, name, false)
		if err != nil {
			return err
		}
		info, err := at.look()
		if err == nil && info.Mode().IsRegular() {
			err = s.file(ctx, at, name)
		}
		if err = errors.Join(err, at.close()); err != nil || info.Mode().IsRegular() {
			return err
		}
	}
	dir, err := descend(root, name, false)
	if err != nil {
		return err
	}
	w := &walker{visit: s.visit}
	err = w.walk(ctx, dir, name, 1)
	if s.Incomplete == "" {
		s.Incomplete = w.incomplete
	}
	return errors.Join(err, dir.Close())
}

func (s *searcher) visit(ctx context.Context, dir *os.Root, name string, info fs.FileInfo, _ int) (bool, error) {
	if info.IsDir() {
		return !heavy(info.Name()), nil
	}
	if ok, _ := path.Match(s.glob, info.Name()); s.glob != "" && !ok { // its form was checked
		return false, nil
	}
	if !info.Mode().IsRegular() {
		return false, nil
	}
	return false, s.file(ctx, place{dir, info.Name()}, name)
}

func (s *searcher) file(ctx context.Context, at place, name string) error {
	f, info, err := at.open()
	if err != nil {
		s.Skipped++
		return nil //nolint:nilerr // a file that cannot be read is counted
	}
	var data []byte
	if info.Size() <= maxFileBytes {
		data, err = io.ReadAll(io.LimitReader(f, maxFileBytes))
	}
	err = errors.Join(err, f.Close())
	s.bytes += int64(len(data))
	switch {
	case s.bytes > maxSearched:
		s.Incomplete = "there is more text than is searched: name a folder"
		return errEnough
	case err != nil, info.Size() > maxFileBytes, isBinary(data[:min(len(data), sniffed)]):
		s.Skipped++
		return nil //nolint:nilerr // as above
	}
	s.Searched++
	return s.lines(ctx, data, name)
}

func (s *searcher) lines(ctx context.Context, data []byte, name string) error {
	for number := 1; len(data) > 0; number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		found := s.pattern.FindIndex(line[:min(len(line), maxLine)])
		if found == nil {
			continue
		}
		if len(s.Matches) == s.limit {
			s.Incomplete = "there are more matches: narrow the pattern, path or name"
			return errEnough
		}
		s.Matches = append(s.Matches, match{strings.ToValidUTF8(name, "�"), number, found[0] + 1, excerpt(line, found[0])})
	}
	return nil
}

// excerpt shows the part of a line where the match is.
func excerpt(line []byte, at int) string {
	from := 0
	if len(line) > maxShown {
		from = max(0, min(at-maxShown/3, len(line)-maxShown))
	}
	return strings.ToValidUTF8(string(line[from:min(len(line), from+maxShown)]), "�")
}

// Package configfile changes the operator's config.toml as the operator would: a table more
// or less, with all else byte for byte as it was.
//
// A change is written only where the file then says exactly what was meant. What would not load, or
// would say anything else, stays as it is, and the operator is told what to write.
package configfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/disk"
)

// Quote is a basic string of TOML.
func Quote(s string) string {
	var text strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			text.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&text, `\u%04X`, r)
		default:
			text.WriteRune(r)
		}
	}
	return `"` + text.String() + `"`
}

// Append is a config with a table more, at its end.
func Append(text, table string) string {
	if text == "" {
		return table
	}
	return strings.TrimRight(text, "\n") + "\n\n" + table
}

// Drop is a config without the table that is the nth with such a header, the first being 0.
// A table ends where the next one begins.
func Drop(text, header string, nth int) string {
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		plain, _, _ := strings.Cut(line, "#")
		plain = strings.TrimSpace(plain)
		if strings.HasPrefix(plain, "[") {
			inside = plain == header && nth == 0
		}
		if plain == header {
			nth--
		}
		if !inside {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Change writes what edit makes of the folder's config, and reports whether it did. What
// would say anything else than want is not written, and neither is a file that is a link,
// which lies elsewhere for a reason.
func Change(dir string, want config.Config, edit func(string) string) (bool, error) {
	path := filepath.Join(dir, config.FileName)
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	text := edit(string(data))
	have, err := tried(dir, text)
	if _, unwritten := errors.AsType[*fs.PathError](err); unwritten {
		return false, fmt.Errorf("%s stays as it is: %w", path, err)
	}
	if err != nil || !reflect.DeepEqual(have, want) {
		return false, nil //nolint:nilerr // then the operator writes it where it belongs
	}
	return true, disk.Write(path, []byte(text), 0o600)
}

// tried reads a config in a folder of its own.
func tried(dir, text string) (config.Config, error) {
	scratch, err := os.MkdirTemp(dir, ".try-")
	if err != nil {
		return config.Config{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // a copy
	if err := os.WriteFile(filepath.Join(scratch, config.FileName), []byte(text), 0o600); err != nil {
		return config.Config{}, err
	}
	return config.Load(scratch)
}

package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteExample writes a commented example to a file that must not be there yet, in a
// folder that is made (U-32).
func (e *Env) WriteExample(path, text, next string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return UsageOf(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return Usage("%s is there already: name another file, or remove it first", path)
	}
	if err != nil {
		return UsageOf(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if e.JSON {
		return e.PrintJSON(map[string]string{"file": path, "next": next})
	}
	p := e.Printer(e.Stdout)
	p.Field("written", "%s", path)
	p.Field("next", "%s", next)
	return nil
}

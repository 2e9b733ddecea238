package pluginhost

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// files are the copies that a call was decided on: a handler is sealed, and sees no folder that
// they lie in (D-13). What they hold comes with the call, unless the tool says how much it
// takes: then the handler reads it in parts. A copy that is not what was digested is an error.
func (u *unit) files(in nacre.Invocation) (map[string]plugin.File, error) {
	if len(in.Files) == 0 {
		return nil, nil
	}
	most := u.fileBytes(in.Tool)
	if err := fitting(in, most); err != nil {
		return nil, err
	}
	files := make(map[string]plugin.File, len(in.Files))
	for _, pin := range in.Files {
		file := plugin.File{Name: pin.Name, SHA256: pin.SHA256, Bytes: pin.Bytes}
		var err error
		if most > 0 {
			err = checkFile(pin, io.Discard)
		} else {
			file.Content, err = readFile(pin)
		}
		if err != nil {
			return nil, fmt.Errorf("the copy of the file of %s: %w", pin.Argument, err)
		}
		files[pin.Argument] = file
	}
	return files, nil
}

// fileBytes is how much the files of a tool's call hold, as its manifest says; 0 where it does not.
func (u *unit) fileBytes(tool nacre.ToolName) int64 {
	tools := u.found.Manifest.Provides.Tools
	i := slices.IndexFunc(tools, func(t plugin.ToolSpec) bool { return t.Name == tool })
	if i < 0 {
		return 0
	}
	return tools[i].FileBytes
}

func fitting(in nacre.Invocation, most int64) error {
	if most == 0 {
		most = plugin.MaxFiles
	}
	left := most
	for _, pin := range in.Files {
		if left -= pin.Bytes; left < 0 {
			return &nacre.Refusal{
				Code: nacre.CodeHandlerError, Original: "FILES_TOO_LARGE",
				Message: fmt.Sprintf("%s: the file has %d bytes, and the files of one call to %s hold at most %d bytes in all: name a smaller one, or a part of it",
					pin.Argument, pin.Bytes, in.Tool, most),
			}
		}
	}
	return nil
}

func readFile(pin nacre.FilePin) ([]byte, error) {
	content := bytes.NewBuffer(make([]byte, 0, pin.Bytes)) // of an empty file, too, there is one
	err := checkFile(pin, content)
	return content.Bytes(), err
}

// checkFile gives what a copy holds, and refuses one that is not what was digested.
func checkFile(pin nacre.FilePin, to io.Writer) error {
	f, err := os.Open(pin.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	digest := sha256.New()
	if _, err := io.Copy(io.MultiWriter(digest, to), io.LimitReader(f, pin.Bytes+1)); err != nil {
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != pin.SHA256 {
		return errors.New("it is not what was digested")
	}
	return nil
}

// readPart gives a part of a file that the request's call names, and no other one.
func readPart(pins []nacre.FilePin, p plugin.Service) (json.RawMessage, error) {
	i := slices.IndexFunc(pins, func(pin nacre.FilePin) bool { return pin.Argument == p.Argument })
	if i < 0 {
		return nil, refused("the call names no file in this argument")
	}
	if p.Offset < 0 || p.Offset > pins[i].Bytes {
		return nil, refused(fmt.Sprintf("the file has %d bytes", pins[i].Bytes))
	}
	f, err := os.Open(pins[i].Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	part, err := io.ReadAll(io.NewSectionReader(f, p.Offset, min(plugin.FilePart, pins[i].Bytes-p.Offset)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(part)
}

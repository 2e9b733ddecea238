package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// readFiles reads the copies that a call was decided on: a handler is sealed,
// and sees no folder that they lie in (D-13). A copy that is not what was
// digested is an error.
func readFiles(pins []nacre.FilePin) (map[string]plugin.File, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	left := int64(plugin.MaxFiles)
	for _, pin := range pins {
		if left -= pin.Bytes; left < 0 {
			return nil, &nacre.Refusal{
				Code: nacre.CodeHandlerError, Original: "FILES_TOO_LARGE",
				Message: fmt.Sprintf("%s: the files of a call to a plugin hold at most %d bytes in all", pin.Argument, plugin.MaxFiles),
			}
		}
	}
	files := make(map[string]plugin.File, len(pins))
	for _, pin := range pins {
		content, err := readFile(pin)
		if err != nil {
			return nil, fmt.Errorf("the copy of the file of %s: %w", pin.Argument, err)
		}
		files[pin.Argument] = plugin.File{Name: pin.Name, SHA256: pin.SHA256, Bytes: pin.Bytes, Content: content}
	}
	return files, nil
}

func readFile(pin nacre.FilePin) ([]byte, error) {
	f, err := os.Open(pin.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	content, err := io.ReadAll(io.LimitReader(f, pin.Bytes+1))
	if err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(content); hex.EncodeToString(digest[:]) != pin.SHA256 {
		return nil, errors.New("it is not what was digested")
	}
	return content, nil
}

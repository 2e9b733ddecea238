package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

const maxDepth = 32 // levels of a document

// isStrictJSON reports whether data is one JSON value that every reader takes
// for the same: no key twice, nothing after it, no deep nesting.
func isStrictJSON(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if !readValue(dec, 0) {
		return false
	}
	_, err := dec.Token()
	return errors.Is(err, io.EOF)
}

func readValue(dec *json.Decoder, depth int) bool {
	t, err := dec.Token()
	if err != nil || depth > maxDepth {
		return false
	}
	open, nested := t.(json.Delim)
	if !nested {
		return true
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			k, err := dec.Token()
			key, _ := k.(string) // keys are nothing else
			if err != nil || seen[key] {
				return false
			}
			seen[key] = true
		}
		if !readValue(dec, depth+1) {
			return false
		}
	}
	_, err = dec.Token()
	return err == nil
}

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// jsonTree makes a tree of a file in JSON.
type jsonTree struct {
	file
	data    []byte
	decoder *json.Decoder
	// line is that of the byte at seen, so that each byte is counted once.
	line, seen int
}

func readJSON(name string, data []byte) (*node, error) {
	t := &jsonTree{file: file{name}, data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
	t.decoder.UseNumber()
	root, err := t.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := t.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, t.errorf(t.at(), "there is more after the end")
	}
	return root, nil
}

// at is the line that has been read up to.
func (t *jsonTree) at() int {
	end := min(int(t.decoder.InputOffset()), len(t.data))
	t.line += bytes.Count(t.data[t.seen:end], []byte("\n"))
	t.seen = end
	return t.line
}

func (t *jsonTree) token() (json.Token, error) {
	token, err := t.decoder.Token()
	if err != nil {
		return nil, t.errorf(t.at(), "this is not JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return token, nil
}

func (t *jsonTree) value(depth int) (*node, error) {
	token, err := t.token()
	if err != nil {
		return nil, err
	}
	n := &node{kind: kindOther, line: t.at()}
	if depth > maxTree {
		return nil, t.errorf(n.line, "nested more than %d deep", maxTree)
	}
	switch v := token.(type) {
	case nil:
		n.kind = kindNull
	case string:
		n.kind, n.text = kindText, v
	case bool:
		n.kind, n.yes, n.text = kindBool, v, strconv.FormatBool(v)
	case json.Number:
		n.kind, n.text = kindFloat, v.String()
		if number, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			n.kind, n.num = kindInt, number
		}
	case json.Delim:
		if v == '{' {
			return n, t.table(n, depth)
		}
		return n, t.list(n, depth)
	}
	return n, nil
}

func (t *jsonTree) table(n *node, depth int) error {
	n.kind, n.table = kindTable, map[string]*node{}
	for t.decoder.More() {
		token, err := t.token()
		if err != nil {
			return err
		}
		line, key := t.at(), fmt.Sprint(token)
		if n.table[key] != nil {
			return t.errorf(line, "the key %.80q is there twice", key)
		}
		if n.table[key], err = t.value(depth + 1); err != nil {
			return err
		}
		n.table[key].line = line
	}
	_, err := t.token()
	return err
}

func (t *jsonTree) list(n *node, depth int) error {
	n.kind = kindList
	for t.decoder.More() {
		one, err := t.value(depth + 1)
		if err != nil {
			return err
		}
		n.list = append(n.list, one)
	}
	_, err := t.token()
	return err
}

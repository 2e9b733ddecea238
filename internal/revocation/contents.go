package revocation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre/internal/token"
)

const (
	// format names the list's form.
	format = "nacre.revocations.1"
	// lastYear is the last that JSON can tell; later is never.
	lastYear = 9999
)

// header is the first line: what a whole file has after it.
type header struct {
	Format string `json:"format"`
	Lines  int    `json:"lines"`
	SHA256 string `json:"sha256"`
	// Swept is when the file was last swept.
	Swept time.Time `json:"swept,omitzero"`
}

// entry is one line. Until is when it may be swept; zero means never.
type entry struct {
	ID        string    `json:"id,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Until     time.Time `json:"until,omitzero"`
}

// contents are a file's, in the order in which they were revoked.
type contents struct {
	entries []entry
	swept   time.Time
	list    token.RevocationList
}

// add reports whether the entry changes anything. It never shortens one.
func (c *contents) add(e entry) (bool, error) {
	if e.Until = e.Until.Round(0).UTC(); e.Until.Year() > lastYear {
		e.Until = time.Time{}
	}
	for i := range c.entries {
		have := &c.entries[i]
		if have.ID != e.ID || have.Principal != e.Principal {
			continue
		}
		if have.Until.IsZero() || !e.Until.IsZero() && !e.Until.After(have.Until) {
			return false, nil
		}
		have.Until = e.Until
		return true, nil
	}
	if len(c.entries) >= token.MaxRevocations {
		return false, token.ErrRevocationsFull
	}
	c.entries = append(c.entries, e)
	return true, nil
}

// sweep drops what was over at the last sweep and still is: a clock that is
// wrong for once loses nothing.
func (c *contents) sweep(now time.Time) bool {
	over := now
	if c.swept.Before(now) {
		over = c.swept
	}
	c.swept = now.Round(0).UTC()
	kept := c.entries[:0]
	for _, e := range c.entries {
		if e.Until.IsZero() || over.Before(e.Until) {
			kept = append(kept, e)
		}
	}
	c.entries = kept
	return true
}

func (c *contents) encode() []byte {
	var body []byte
	for _, e := range c.entries {
		body = append(body, line(e)...)
	}
	return seal(header{Format: format, Lines: len(c.entries), Swept: c.swept}, body)
}

// seal puts a header with a checksum before the lines.
func seal(head header, body []byte) []byte {
	sum := sha256.Sum256(body)
	head.SHA256 = hex.EncodeToString(sum[:])
	return append(line(head), body...)
}

// line never fails: it is given strings, numbers and checked times.
func line(v any) []byte {
	b, _ := json.Marshal(v) // see add
	return append(b, '\n')
}

func decode(data []byte) (*contents, error) {
	head, lines, err := unseal(data, format)
	if err != nil {
		return nil, err
	}
	c := &contents{swept: head.Swept}
	for _, line := range lines {
		var e entry
		if err := strictly(line, &e); err != nil {
			return nil, err
		}
		if err := c.list.Revoke(e.ID, e.Principal, e.Until); err != nil {
			return nil, err
		}
		c.entries = append(c.entries, e)
	}
	return c, nil
}

// unseal returns the lines of a file that is whole.
func unseal(data []byte, format string) (head header, lines [][]byte, err error) {
	first, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok || strictly(first, &head) != nil || head.Format != format {
		return header{}, nil, fmt.Errorf("it does not begin as a %s", format)
	}
	sum := sha256.Sum256(body)
	if hex.EncodeToString(sum[:]) != head.SHA256 {
		return header{}, nil, errors.New("it was changed or cut off: its checksum does not match")
	}
	if lines = bytes.Split(body, []byte("\n")); len(lines) != head.Lines+1 || len(lines[head.Lines]) != 0 {
		return header{}, nil, fmt.Errorf("it does not have %d lines", head.Lines)
	}
	return head, lines[:head.Lines], nil
}

func strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("a line has more than one value")
	}
	return nil
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of what is said.
const (
	maxLine = 128 << 10 // bytes of one line from a client
	maxName = 256       // characters of a sender or chat
	maxBody = 8192      // characters of a message
)

// The kinds of lines that a client is told.
const (
	kindMessage = "message" // an agent's, by the name of its group
	kindOwn     = "own"     // what the sender wrote, here or elsewhere
	kindReady   = "ready"   // all that was said before has been told
	kindSent    = "sent"    // the message was taken
	kindError   = "error"   // it was not
	kindNotice  = "notice"  // nobody will answer a message that was taken
)

// line is what a client is told.
type line struct {
	Kind string    `json:"kind"`
	From string    `json:"from,omitempty"`
	Chat string    `json:"chat,omitempty"`
	Body string    `json:"body,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// For names the message that it is the answer to, or about; [kindSent] brings it.
	For string `json:"for,omitempty"`
	// History says that it was said before the connection was made.
	History bool `json:"history,omitempty"`
}

// said is what a client says. Without a body it only asks for what was said,
// and to be told what will be.
type said struct{ sender, chat, body string }

// parseSaid reads one line: an object of texts, no key twice.
func parseSaid(data []byte) (said, error) {
	if !utf8.Valid(data) {
		return said{}, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return said{}, errors.New("not a JSON object")
	}
	var s said
	fields, seen := map[string]*string{"sender": &s.sender, "chat": &s.chat, "body": &s.body}, map[string]bool{}
	for dec.More() {
		k, err := dec.Token()
		key, _ := k.(string) // keys are nothing else
		if err != nil || fields[key] == nil || seen[key] {
			return said{}, fmt.Errorf("the key %.40q is unknown or comes twice: there are sender, chat and body", key)
		}
		v, err := dec.Token()
		text, ok := v.(string)
		if err != nil || !ok {
			return said{}, fmt.Errorf("%s is not a text", key)
		}
		seen[key], *fields[key] = true, text
	}
	if _, err := dec.Token(); err != nil {
		return said{}, errors.New("not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return said{}, errors.New("something follows the object")
	}
	return s, s.check()
}

func (s said) check() error {
	if !isName(s.sender) || s.chat != "" && !isName(s.chat) {
		return fmt.Errorf("sender and chat have 1 to %d characters, and none that cannot be seen", maxName)
	}
	if utf8.RuneCountInString(s.body) > maxBody {
		return fmt.Errorf("a message has at most %d characters", maxBody)
	}
	return nil
}

func isName(s string) bool {
	if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxName {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}

package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// maxDepth is how deep a request may nest: tool schemas and inputs are in it.
	maxDepth = 128
	// bytesPerToken is the estimate of what a token takes, on the low side for prose and code.
	bytesPerToken = 3
	// maxModel is the longest model id in bytes.
	maxModel = 128
	// maxOutput is the largest maximum of output tokens that is believed.
	maxOutput = 10_000_000
)

// request is a checked call. members are what will be sent, in order.
type request struct {
	members  []wire.Member
	model    string
	stream   bool
	thinking int64
	// maxTokens is 0 where the call sets none; maxField is the field that sets it.
	maxTokens int64
	maxField  string
	// usageAsked says that a Chat stream was to tell its usage.
	usageAsked bool
	bytes      int
	// wide are the bytes of characters beyond ASCII, which take up to a token each.
	wide int
	pictures
	// opaque are bytes of files and of ciphertext, whose tokens cannot be bounded from below.
	opaque   int
	tools    int
	messages int
	vendorUse
}

// pictures are the images of a call.
type pictures struct {
	images int
	// imageBytes are their bytes, which cost imageTokens by the image.
	imageBytes  int
	imageTokens int
}

// vendorUse is what the vendor itself may do in a call, and what that may cost.
type vendorUse struct {
	// vendorTools are the operator's grants, and searches how often the vendor may
	// use one of them in this call, each reading vendorTokens at most.
	vendorTools []string
	searches    int64
	// certain are those that are done and told by no account.
	certain      int64
	vendorTokens int64
	fee          int64
	// openaiSearch says that OpenAI may search, at most maxCalls times where that is set.
	openaiSearch bool
	maxCalls     int64
}

// textBytes is what of the request is not an image.
func (r *request) textBytes() int { return r.bytes - r.imageBytes }

// inputTokens estimates what the call will be charged for reading.
func (r *request) inputTokens() int64 {
	return r.readTokens() + 1 + r.searchTokens()
}

// readTokens estimates what the model reads once. Characters beyond ASCII count as
// they would if they were escaped, which they may be as well.
func (r *request) readTokens() int64 {
	return int64((r.textBytes()+r.wide)/bytesPerToken + r.images*r.imageTokens)
}

// wideBytes counts the bytes of characters beyond ASCII.
func wideBytes(body []byte) (n int) {
	for _, c := range body {
		n += int(c >> 7)
	}
	return n
}

// parseRequest reads a body strictly and refuses what is not on the speaker's list.
func parseRequest(body []byte, limit int, s speaker, may allowed) (*request, *refusal) {
	members, err := wire.Object(body, wire.Limits{Message: limit, Depth: maxDepth, String: limit, CaseSensitive: true})
	if err != nil {
		return nil, refuse(ReasonMalformed, "the request is refused: %v", err)
	}
	r := &request{members: members, bytes: len(body), wide: wideBytes(body), vendorUse: vendorUse{vendorTools: may.vendorTools}}
	for _, m := range members {
		if err := s.field(r, m.Key, m.Value); err != nil {
			var no *refusal
			if errors.As(err, &no) {
				return nil, no
			}
			return nil, refuse(ReasonMalformed, "%.64s: %v", m.Key, err)
		}
	}
	r.boundSearches()
	if r.model == "" || r.messages == 0 {
		return nil, refuse(ReasonMalformed, "a model and what to say to it are required")
	}
	return r, nil
}

func (r *request) setModel(value json.RawMessage) error {
	if err := json.Unmarshal(value, &r.model); err != nil {
		return errors.New("want a string")
	}
	return checkModel(r.model)
}

func checkModel(id string) error {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return errors.New("want visible ASCII")
		}
	}
	if len(id) > maxModel {
		return fmt.Errorf("longer than %d bytes", maxModel)
	}
	return nil
}

func (r *request) setMaxTokens(key string, value json.RawMessage) error {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 1 || n > maxOutput {
		return fmt.Errorf("want a whole number from 1 to %d", maxOutput)
	}
	if r.maxField != "" {
		return fmt.Errorf("%s is set as well: set one", r.maxField)
	}
	r.maxTokens, r.maxField = n, key
	return nil
}

// image notes an image whose bytes are in the request.
func (p *pictures) image(data json.RawMessage, tokens int) {
	p.images++
	p.imageBytes += len(data)
	p.imageTokens = tokens
}

// set makes a member what the gateway wants it to be.
func (r *request) set(key string, value json.RawMessage) {
	for i := range r.members {
		if r.members[i].Key == key {
			r.members[i].Value = value
			return
		}
	}
	r.members = append(r.members, wire.Member{Key: key, Value: value})
}

// drop leaves a member out of what is sent.
func (r *request) drop(key string) {
	r.members = slices.DeleteFunc(r.members, func(m wire.Member) bool { return m.Key == key })
}

// encode writes the members that were checked, and nothing else.
func (r *request) encode() []byte {
	b := make([]byte, 0, r.bytes+64)
	for i, m := range r.members {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		b = wire.AppendText(append(b, sep), m.Key)
		b = append(append(b, ':'), m.Value...)
	}
	return append(b, '}')
}

func unknownField(key string) error {
	return refuse(ReasonField, "%.64s: not on the gateway's list of fields", key)
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func oneOf(value json.RawMessage, allowed ...string) error {
	if s, ok := text(value); ok && slices.Contains(allowed, s) {
		return nil
	}
	return refuse(ReasonField, "%.64s: not on the gateway's list %v", value, allowed)
}

func checkFields(value json.RawMessage, name string, allowed ...string) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	return onlyFields(fields, name, allowed...)
}

func onlyFields(fields map[string]json.RawMessage, name string, allowed ...string) error {
	for key := range fields {
		if !slices.Contains(allowed, key) {
			return refuse(ReasonField, "%s.%.64s: not on the gateway's list of fields", name, key)
		}
	}
	return nil
}

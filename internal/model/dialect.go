package model

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// Dialect is one vendor's form of asking a model. The zero value is none.
type Dialect string

// The dialects that the gateway speaks.
const (
	// Anthropic is Messages: POST /v1/messages and /v1/messages/count_tokens.
	Anthropic Dialect = "anthropic"
	// Responses is OpenAI's: POST /v1/responses.
	Responses Dialect = "openai-responses"
	// Chat is OpenAI's Chat Completions, which most others speak too: POST /v1/chat/completions.
	Chat Dialect = "openai-chat"
)

// Known reports whether d is a dialect that the gateway speaks.
func (d Dialect) Known() bool { return slices.Contains([]Dialect{Anthropic, Responses, Chat}, d) }

// speaker is what differs between dialects: how a request is checked and
// finished, and how its answer is metered. It holds no state.
type speaker interface {
	// field checks one top-level field of a request. A field that it does not name is refused.
	field(r *request, key string, value json.RawMessage) error
	// finish writes what the gateway decides into a request that was accepted:
	// its maximum of output, and that nothing is stored.
	finish(r *request, u *Upstream)
	// header adds the key, and what of the brain's headers the upstream may
	// see. It returns which of the vendor's switches were left out.
	header(out, in http.Header, key nacre.Secret, may allowed) dropped
	// read meters one event of a stream, or an answer that is one object.
	read(data []byte, m *meter)
}

// route is one line of the allow-list: what may be asked, and in which dialect.
type route struct {
	dialect Dialect
	path    string
	// query is the one query that may follow the path.
	query string
	// free says that the vendor does not charge, and that nothing is generated.
	free bool
	speaker
}

// routes returns the allow-list. Every one is a POST.
func routes() []route {
	return []route{
		{Anthropic, messagesPath, "beta=true", false, anthropic{}},
		{Anthropic, countPath, "beta=true", true, anthropic{}},
		{Responses, responsesPath, "", false, responses{}},
		{Chat, chatPath, "", false, chat{}},
	}
}

const (
	messagesPath  = "/v1/messages"
	countPath     = "/v1/messages/count_tokens"
	responsesPath = "/v1/responses"
	chatPath      = "/v1/chat/completions"
	modelsPath    = "/v1/models"
)

// findRoute matches a request's target as it was written: what has to be
// decoded or cleaned first is not on the list.
func findRoute(method, uri string) (route, bool) {
	path, query, asked := strings.Cut(uri, "?")
	for _, r := range routes() {
		if method == http.MethodPost && path == r.path && (!asked || r.query != "" && query == r.query) {
			return r, true
		}
	}
	return route{}, false
}

// shapeOf is the dialect of the errors for a target that is on no list.
func shapeOf(uri string) Dialect {
	for _, r := range routes() {
		if r.dialect != Anthropic && strings.HasPrefix(uri, r.path) {
			return r.dialect
		}
	}
	return Anthropic
}

// meter is what an answer has told of itself so far.
type meter struct {
	usage budget.Usage
	// reasoning is the part of the output that was thought and not said.
	reasoning int64
	// text is how many bytes of what the model wrote were seen.
	text int
	// searches are those that the vendor did, by its account or by what was seen.
	searches int64
	// seen are the searches that were seen in a stream.
	seen int64
	// counted says that the upstream has reported usage.
	counted bool
	// unread says that part of the answer could not be read, so that its account
	// may be in what is missing.
	unread bool
	// ended says that the answer is whole, wrong that it ended in an error.
	ended, wrong bool
	// withhold says that the event exists because the gateway asked for it, and the brain did not.
	withhold bool
	// quiet says that the brain did not ask for usage in the stream.
	quiet bool
}

// mostBytesPerToken bounds from below what text costs: over a whole text no
// tokenizer in use averages more bytes a token.
const mostBytesPerToken = 16

// mostPromptBytesPerToken is the same for a prompt, of which vendors rewrite
// the tools and drop the punctuation of JSON.
const mostPromptBytesPerToken = 64

// promptOverhead is how many tokens a vendor may add to a prompt of its own,
// and slack how much of its account may lie over what passed, in percent.
const (
	promptOverhead = 4_096
	slack          = 25
)

// crossCheck raises the account to what was counted here, and reports whether the upstream had
// claimed less, or far more than could have passed. In the second case its claim, the larger,
// stands and is recorded.
func (m *meter) crossCheck(r *request) (short, over bool) {
	in, out := int64((r.textBytes()-r.opaque)/mostPromptBytesPerToken), int64(m.text/mostBytesPerToken)
	if missing := in - m.usage.In(); missing > 0 {
		m.usage.Input = max(m.usage.Input, 0) + missing
		short = true
	}
	if m.usage.Output < out {
		m.usage.Output = out
		short = true
	}
	// No token has less than a byte.
	mostIn := int64(r.textBytes()+r.images*r.imageTokens) + promptOverhead
	if r.searches > 0 {
		mostIn += r.searchTokens()
	}
	over = m.usage.In() > mostIn || m.usage.Output > r.maxTokens+r.maxTokens*slack/100
	return short, over
}

// said is the length in bytes of a text, and 0 of what is none.
type said int

// UnmarshalJSON reads any JSON.
func (s *said) UnmarshalJSON(value []byte) error {
	var written string
	if json.Unmarshal(value, &written) == nil {
		*s = said(len(written))
	}
	return nil
}

// maxSearches is the most that is believed of one call.
const maxSearches = 1_000

// sawSearch counts what the vendor was seen to do.
func (m *meter) sawSearch(did bool) {
	if did {
		m.seen = min(m.seen+1, maxSearches)
		m.searches = max(m.searches, m.seen)
	}
}

// report adds the totals of a report: the larger of each counts.
func (m *meter) report(u budget.Usage) {
	m.counted = true
	m.usage.Input = larger(m.usage.Input, u.Input)
	m.usage.Output = larger(m.usage.Output, u.Output)
	m.usage.CacheRead = larger(m.usage.CacheRead, u.CacheRead)
	m.usage.CacheWrite = larger(m.usage.CacheWrite, u.CacheWrite)
	m.usage.CacheWriteLong = larger(m.usage.CacheWriteLong, u.CacheWriteLong)
}

// larger is the larger of two counts, up to what is priced: a record holds no
// number of any size, and an upstream could end the session with one.
func larger(have, told int64) int64 { return min(max(have, told), budget.MaxTokens) }

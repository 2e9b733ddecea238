package approval

import (
	"encoding/json"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// lease shows what would be minted, for where, for how long and how often; or which
// key would log in, and where. It is false for any other question.
func (r *renderer) lease(q nacre.Question) bool {
	if asked, ok := question.LoginOf(q); ok {
		r.login(q, asked)
		return true
	}
	var asked question.Budget
	if q.Capability != question.Lease || json.Unmarshal(q.Arguments, &asked) != nil {
		return false
	}
	r.line("? %s  %s wants a credential", question.Escape(q.ID), r.shown(string(q.Group), maxWhy))
	r.line("    credential %s, minted by %s", r.shown(asked.Credential, maxWhy), r.shown(asked.Minted, maxArguments))
	r.line("    is for     %s %s %s", r.shown(asked.Host, maxWhy), r.shown(strings.Join(asked.Methods, ","), maxWhy), r.shown(strings.Join(asked.Paths, " "), maxArguments))
	r.line("    for        %d h from now on, and %d renewals, or less where you say so, in this session only", asked.Hours, asked.Renewals)
	r.reason(q)
	r.expiry(q)
	return true
}

func (r *renderer) login(q nacre.Question, asked question.Login) {
	span := "this session, or less where you say so"
	if asked.Once {
		span = "one login"
	}
	r.line("? %s  %s wants to log in with an SSH key", question.Escape(q.ID), r.shown(string(q.Group), maxWhy))
	r.line("    credential %s, %s", r.shown(asked.Credential, maxWhy), r.shown(asked.Key, maxWhy))
	r.line("    logs in as %s, whose key is %s", r.shown(asked.Login, maxWhy), r.shown(strings.Join(asked.HostKeys, " or "), maxArguments))
	r.line("    for        %s; what it does there is not seen", span)
	r.expiry(q)
}

package approval

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// renderLease shows what would be minted, for where, for how long and how often; or which
// key would log in, and where.
func renderLease(q nacre.Question) (string, bool) {
	if asked, ok := question.LoginOf(q); ok {
		return renderLogin(q, asked), true
	}
	var asked question.Budget
	if q.Capability != question.Lease || json.Unmarshal(q.Arguments, &asked) != nil {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "? %s  %s wants a credential\n", question.Escape(q.ID), shown(string(q.Group), maxWhy))
	fmt.Fprintf(&b, "    credential %s, minted by %s\n", shown(asked.Credential, maxWhy), shown(asked.Minted, maxArguments))
	fmt.Fprintf(&b, "    is for     %s %s %s\n", shown(asked.Host, maxWhy), shown(strings.Join(asked.Methods, ","), maxWhy), shown(strings.Join(asked.Paths, " "), maxArguments))
	fmt.Fprintf(&b, "    for        %d h from now on, and %d renewals, or less where you say so, in this session only\n", asked.Hours, asked.Renewals)
	if q.Why != "" {
		fmt.Fprintf(&b, "    asked for  %s\n", shown(q.Why, maxWhy))
	}
	fmt.Fprintf(&b, "    expires    %s\n", q.Expires.Format("15:04:05 MST"))
	return b.String(), true
}

func renderLogin(q nacre.Question, asked question.Login) string {
	span := "this session, or less where you say so"
	if asked.Once {
		span = "one login"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "? %s  %s wants to log in with an SSH key\n", question.Escape(q.ID), shown(string(q.Group), maxWhy))
	fmt.Fprintf(&b, "    credential %s, %s\n", shown(asked.Credential, maxWhy), shown(asked.Key, maxWhy))
	fmt.Fprintf(&b, "    logs in as %s, whose key is %s\n", shown(asked.Login, maxWhy), shown(strings.Join(asked.HostKeys, " or "), maxArguments))
	fmt.Fprintf(&b, "    for        %s; what it does there is not seen\n", span)
	fmt.Fprintf(&b, "    expires    %s\n", q.Expires.Format("15:04:05 MST"))
	return b.String()
}

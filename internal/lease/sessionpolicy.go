package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// maxPolicy is the longest session policy that AWS takes, in characters.
const maxPolicy = 2048

// SessionPolicy narrows what a session of AWS may do: no more than both it and the role
// allow. What is sent is what was read here, so that AWS reads nothing else.
type SessionPolicy struct {
	Version   string      `json:"Version"`
	Statement []Statement `json:"Statement"`
}

// Statement allows or denies actions on resources.
type Statement struct {
	Sid       string                      `json:"Sid,omitempty"`
	Effect    string                      `json:"Effect"`
	Action    texts                       `json:"Action"`
	Resource  texts                       `json:"Resource"`
	Condition map[string]map[string]texts `json:"Condition,omitempty"`
}

// texts are one text or several, as policies write them.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	var several []string
	err := json.Unmarshal(data, &several)
	*t = several
	return err
}

var errPolicy = errors.New(`policy is a session policy in JSON: {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/*"]}]}`)

// ReadSessionPolicy reads a policy, and refuses one that allows every action, or that says
// what it does not allow in place of what it does.
func ReadSessionPolicy(text string) (SessionPolicy, error) {
	var p SessionPolicy
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if len(text) > maxPolicy || decoder.Decode(&p) != nil || p.Version != "2012-10-17" || len(p.Actions()) == 0 {
		return SessionPolicy{}, errPolicy
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return SessionPolicy{}, errPolicy
	}
	for _, s := range p.Statement {
		switch {
		case s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0:
			return SessionPolicy{}, errPolicy
		case s.Effect == "Allow" && slices.ContainsFunc(s.Action, func(action string) bool { return !strings.Contains(action, ":") || strings.HasPrefix(action, "*") }):
			return SessionPolicy{}, errors.New("policy: an Action that is allowed is SERVICE:NAME: without a service it would be all that the role may do")
		}
	}
	return p, nil
}

// Actions are those that the policy allows.
func (p SessionPolicy) Actions() (allowed []string) {
	for _, s := range p.Statement {
		if s.Effect == "Allow" {
			allowed = append(allowed, s.Action...)
		}
	}
	return allowed
}

// Until is the policy as AWS is sent it, which allows nothing after a moment: AWS lets no
// session end before 15 minutes are over.
func (p SessionPolicy) Until(end time.Time) (string, error) {
	p.Statement = append(slices.Clone(p.Statement), Statement{
		Effect: "Deny", Action: texts{"*"}, Resource: texts{"*"},
		Condition: map[string]map[string]texts{"DateGreaterThan": {"aws:CurrentTime": {end.UTC().Format(time.RFC3339)}}},
	})
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(p)
	short := strings.TrimSpace(text.String())
	if err == nil && len(short) > maxPolicy {
		err = errors.New("policy is too long for AWS, which takes 2048 characters")
	}
	return short, err
}

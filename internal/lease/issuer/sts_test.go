package issuer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
	"github.com/nacre-dev/nacre/internal/sigv4"
)

const (
	accessKey = "AKIAIOSFODNN7EXAMPLE"
	role      = "arn:aws:iam::123456789012:role/team/deploy"
	narrow    = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}}`
	narrowed  = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}]}`
)

// sts speaks the query API of AWS STS.
type sts struct{ shelf }

func (s *sts) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.AWSSTS, URL: url, Assumed: lease.Assumed{Role: role, Region: "eu-west-1", Policy: narrowed}}
}

func (s *sts) root() string { return vaultRoot }

func (s *sts) revokes() bool { return false }

// signed reports whether a request carries the signature of the operator's key.
func (s *sts) signed(r *http.Request, body []byte) bool {
	sum := sha256.Sum256(body)
	at, err := time.Parse(sigv4.TimeLayout, r.Header.Get("X-Amz-Date"))
	have := r.Header.Get("Authorization")
	signed := r.Clone(r.Context())
	signed.Header = http.Header{}
	for _, name := range []string{"Content-Type", "X-Amz-Date", "X-Amz-Content-Sha256"} {
		signed.Header.Set(name, r.Header.Get(name))
	}
	want := sigv4.Authorize(signed, hex.EncodeToString(sum[:]), sigv4.Key{Access: nacre.NewSecret(accessKey), Secret: nacre.NewSecret(s.root()), Region: "eu-west-1", Service: "sts"}, at)
	return err == nil && time.Since(at).Abs() < time.Minute && have == want
}

// narrowedUntil reports whether a session policy allows what was asked, and nothing after
// a quarter of an hour.
func narrowedUntil(text string) bool {
	var policy struct {
		Statement []struct {
			Effect    string
			Action    []string
			Condition map[string]map[string][]string
		}
	}
	if json.Unmarshal([]byte(text), &policy) != nil || len(policy.Statement) != 2 {
		return false
	}
	allow, deny := policy.Statement[0], policy.Statement[1]
	end, err := time.Parse(time.RFC3339, deny.Condition["DateGreaterThan"]["aws:CurrentTime"][0])
	return err == nil && allow.Effect == "Allow" && allow.Action[0] == "s3:GetObject" && deny.Effect == "Deny" && deny.Action[0] == "*" && time.Until(end) <= 15*time.Minute
}

func (s *sts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	switch {
	case !s.signed(r, body):
		w.WriteHeader(http.StatusForbidden)
		return
	case err != nil || form.Get("Action") != "AssumeRole" || form.Get("Version") != "2011-06-15" || form.Get("RoleArn") != role || form.Get("DurationSeconds") != "900" || !narrowedUntil(form.Get("Policy")):
		w.WriteHeader(http.StatusBadRequest)
		return
	case astray(w, r, s.now()):
		return
	}
	secret, how := s.give()
	arn, packed := "arn:aws:sts::123456789012:assumed-role/deploy/"+form.Get("RoleSessionName"), "<PackedPolicySize>6</PackedPolicySize>"
	expires := "<Expiration>" + time.Now().Add(15*time.Minute).UTC().Format(time.RFC3339) + "</Expiration>"
	switch how {
	case "all that there is":
		packed = ""
	case "more than was asked", "a higher level":
		arn = strings.Replace(arn, "/deploy/", "/admin/", 1)
	case "another object":
		arn = strings.Replace(arn, "123456789012", "999999999999", 1)
	case "no end":
		expires = ""
	case "a late end":
		expires = "<Expiration>" + time.Now().Add(12*time.Hour).UTC().Format(time.RFC3339) + "</Expiration>"
	case "an end that is over":
		expires = "<Expiration>" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + "</Expiration>"
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><AssumedRoleUser><AssumedRoleId>AROA:nacre</AssumedRoleId><Arn>%s</Arn></AssumedRoleUser>
<Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>token-of-%s</SessionToken>%s</Credentials>%s</AssumeRoleResult>
<ResponseMetadata><RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId></ResponseMetadata></AssumeRoleResponse>`, arn, secret, secret, expires, packed)
}

// M-32: a session policy that allows everything, or that AWS and nacre would read
// differently, is refused before anybody is asked.
func TestSessionPoliciesThatAreRefused(t *testing.T) {
	t.Parallel()
	good := (&sts{}).table("")
	if _, err := issuer.New(good, issuer.Options{}); err != nil {
		t.Fatal(err)
	}
	if good.Address() != "https://sts.eu-west-1.amazonaws.com" || good.Scope() != role+" (s3:GetObject)" {
		t.Errorf("have %s, %s", good.Address(), good.Scope())
	}
	allow := func(action string) string { return strings.Replace(narrowed, `"s3:GetObject"`, action, 1) }
	for name, edit := range map[string]func(*lease.Minting){
		"no policy":                 func(m *lease.Minting) { m.Policy = "" },
		"no list of statements":     func(m *lease.Minting) { m.Policy = narrow },
		"every action":              func(m *lease.Minting) { m.Policy = allow(`"*"`) },
		"every action, in a list":   func(m *lease.Minting) { m.Policy = allow(`["s3:GetObject", "*"]`) },
		"every action, by a colon":  func(m *lease.Minting) { m.Policy = allow(`"*:*"`) },
		"no action":                 func(m *lease.Minting) { m.Policy = allow(`[]`) },
		"what is not allowed":       func(m *lease.Minting) { m.Policy = strings.Replace(narrowed, `"Action"`, `"NotAction"`, 1) },
		"all but a resource":        func(m *lease.Minting) { m.Policy = strings.Replace(narrowed, `"Resource"`, `"NotResource"`, 1) },
		"nothing is allowed":        func(m *lease.Minting) { m.Policy = strings.Replace(narrowed, `"Allow"`, `"Deny"`, 1) },
		"an effect in small":        func(m *lease.Minting) { m.Policy = strings.Replace(narrowed, `"Allow"`, `"allow"`, 1) },
		"an older version":          func(m *lease.Minting) { m.Policy = strings.Replace(narrowed, "2012-10-17", "2008-10-17", 1) },
		"two documents":             func(m *lease.Minting) { m.Policy = narrowed + narrowed },
		"a policy without an end":   func(m *lease.Minting) { m.Policy = allow(`"s3:` + strings.Repeat("x", 2048) + `"`) },
		"no role":                   func(m *lease.Minting) { m.Role = "" },
		"a user":                    func(m *lease.Minting) { m.Role = "arn:aws:iam::123456789012:user/ada" },
		"a role without an account": func(m *lease.Minting) { m.Role = "arn:aws:iam::role/deploy" },
		"a region that is a host":   func(m *lease.Minting) { m.Region = "evil.example/" },
		"no region":                 func(m *lease.Minting) { m.Region = "" },
		"repositories too":          func(m *lease.Minting) { m.Repositories = []string{"widget"} },
	} {
		table := good
		edit(&table)
		if _, err := issuer.New(table, issuer.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

package issuer

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/sigv4"
)

const (
	// shortestSession is the shortest session that AWS gives.
	shortestSession = 15 * time.Minute
	// sessionName is what CloudTrail shows of whoever assumed the role.
	sessionName = "nacre"
)

// sts assumes roles of AWS, each with a session policy that narrows it and ends it in time.
type sts struct{ provider }

// assumed is the answer of AWS.
type assumed struct {
	XMLName xml.Name `xml:"AssumeRoleResponse"`
	Result  struct {
		User struct {
			Arn string `xml:"Arn"`
		} `xml:"AssumedRoleUser"`
		Credentials struct {
			AccessKey string    `xml:"AccessKeyId"`
			Secret    string    `xml:"SecretAccessKey"`
			Token     string    `xml:"SessionToken"`
			Expires   time.Time `xml:"Expiration"`
		} `xml:"Credentials"`
		// Packed says that AWS read a session policy.
		Packed *int `xml:"PackedPolicySize"`
	} `xml:"AssumeRoleResult"`
}

// Mint implements lease.Issuer.
func (s sts) Mint(ctx context.Context, ttl time.Duration) (lease.Minted, error) {
	request, err := s.request(ctx, ttl)
	if err != nil {
		return lease.Minted{}, settled{err}
	}
	var given assumed
	if err := s.send(request, "text/xml", func(data []byte) error { return xml.Unmarshal(data, &given) }); err != nil {
		return lease.Minted{}, err
	}
	key := given.Result.Credentials
	if key.AccessKey == "" || key.Token == "" {
		return lease.Minted{}, errEmpty
	}
	return checked(ctx, s, lease.Minted{
		Material: lease.Material{Value: nacre.NewSecret(key.Secret), AccessKey: nacre.NewSecret(key.AccessKey), SessionToken: nacre.NewSecret(key.Token)},
		Expires:  key.Expires, Handle: nacre.NewSecret(key.AccessKey),
	}, s.wrong(given, ttl))
}

// request asks for a session, signed with the operator's key.
func (s sts) request(ctx context.Context, ttl time.Duration) (*http.Request, error) {
	key, err := s.options.Key(ctx)
	if err != nil {
		return nil, err
	}
	policy, err := lease.ReadSessionPolicy(s.table.Policy)
	if err != nil {
		return nil, err
	}
	now := s.options.Now()
	narrow, err := policy.Until(now.Add(ttl))
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"Action": {"AssumeRole"}, "Version": {"2011-06-15"}, "RoleArn": {s.table.Role}, "RoleSessionName": {sessionName},
		"DurationSeconds": {strconv.Itoa(int(max(ttl, shortestSession) / time.Second))}, "Policy": {narrow},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.table.Address()+"/", strings.NewReader(form))
	if err != nil {
		return nil, errors.New("the provider's url cannot be used")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sigv4.Sign(request, []byte(form), sigv4.Key{Access: key.AccessKey, Secret: key.Value, Token: key.SessionToken, Region: s.table.Region, Service: "sts"}, now)
	return request, nil
}

// wrong says how a session is not the one that was asked for.
func (s sts) wrong(given assumed, ttl time.Duration) error {
	if given.Result.Packed == nil {
		return fmt.Errorf("%w: it says nothing of the session policy", errWide)
	}
	role := strings.Split(s.table.Role, ":")
	name := role[5][strings.LastIndexByte(role[5], '/')+1:]
	if given.Result.User.Arn != strings.Join([]string{role[0], role[1], "sts", "", role[4], "assumed-role/" + name + "/" + sessionName}, ":") {
		return fmt.Errorf("%w: the session is another role's", errWide)
	}
	return s.life(given.Result.Credentials.Expires, max(ttl, shortestSession))
}

// Revoke implements lease.Issuer. AWS revokes no single session: the policy ends it.
func (sts) Revoke(context.Context, nacre.Secret) error { return lease.ErrIrrevocable }

// Package issuer mints credentials at the providers that nacre knows, and takes them back
// (M-32). It promises that what it gives is no wider and lives no longer than was asked:
// whatever a provider gives beyond that is revoked and refused. It follows no redirect, reads
// a bounded answer for a bounded time, and repeats nothing of an answer in an error.
package issuer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

const (
	// patience bounds one request to a provider.
	patience = 15 * time.Second
	// maxAnswer is the longest answer that is read, in bytes.
	maxAnswer = 1 << 20
	// maxSkew is how far the clocks of this machine and of a provider may be apart.
	maxSkew = 5 * time.Minute
	// maxLife is the longest time that a minted credential may live: GitHub gives an hour.
	maxLife = time.Hour
)

// Options of an issuer. All are required but Owner.
type Options struct {
	// Root reads what credentials are minted with: a private key in PEM, or a token.
	Root func(context.Context) (nacre.Secret, error)
	// Key reads the AWS key that a role is assumed with.
	Key func(context.Context) (lease.Material, error)
	// Owner is whose repositories a token of GitHub is for; empty where nobody said.
	Owner string
	// Transport reaches the provider; redirects are never followed.
	Transport http.RoundTripper
	Now       func() time.Time
}

// New makes the issuer of a table. It asks nobody.
func New(table lease.Minting, o Options) (lease.Issuer, error) {
	if err := table.Check(); err != nil {
		return nil, err
	}
	p := provider{
		table: table, options: o,
		client: &http.Client{Transport: o.Transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	switch table.Kind {
	case lease.GitHubApp:
		return github{p}, nil
	case lease.Vault:
		return vault{p}, nil
	case lease.AWSSTS:
		return sts{p}, nil
	case lease.Cloudflare:
		return cloudflare{p}, nil
	case lease.GCP:
		return gcp{p}, nil
	case lease.Registry:
		return registry{p}, nil
	}
	return nil, errors.New("nobody mints credentials of this kind")
}

// provider is what all issuers ask with.
type provider struct {
	table   lease.Minting
	options Options
	client  *http.Client
}

// The ways in which an answer is not used.
var (
	errWide  = errors.New("the provider gave more than was asked, which is not used")
	errLong  = errors.New("the provider gave a credential that never ends, or ends too late, which is not used")
	errEmpty = errors.New("the provider's answer holds no credential")
)

// settled is an error after which no credential is out: there is nothing to take back.
type settled struct{ error }

// Is tells lease.ErrNothing.
func (settled) Is(target error) bool { return target == lease.ErrNothing }

// Unwrap implements errors.Is for what went wrong.
func (s settled) Unwrap() error { return s.error }

// ask sends a request with one credential of nacre's own, and reads the JSON of its answer, where that has
// content. Without into, it must have none.
func (p provider) ask(ctx context.Context, method, path string, header http.Header, body, into any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, p.table.Address()+path, &text)
	if err != nil {
		return errors.New("the provider's url cannot be used")
	}
	request.Header = header
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if into == nil {
		return p.send(request, "", nil)
	}
	return p.send(request, "application/json", func(data []byte) error { return json.Unmarshal(data, into) })
}

// send sends a request, and reads an answer of one kind, where that has content; without read, it must have none.
func (p provider) send(request *http.Request, kind string, read func([]byte) error) error {
	response, err := p.client.Do(request) //nolint:gosec // the operator says whom to ask, and no redirect is followed
	var never *net.OpError
	if errors.As(err, &never) && never.Op == "dial" {
		return settled{fmt.Errorf("%s cannot be reached: check url and the network", p.table.Address())}
	}
	if err != nil {
		return fmt.Errorf("%s did not answer, or did not answer within %s", p.table.Address(), patience)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	if err := p.status(response); err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusNoContent:
		return nil
	case read == nil:
		return fmt.Errorf("%s answered with status %d, not 204: a page of a proxy or a login may stand in between", p.table.Address(), response.StatusCode)
	}
	return decode(response, kind, read)
}

// status is what an answer's first line says.
func (p provider) status(r *http.Response) error {
	if r.StatusCode < 300 {
		return nil
	}
	if at, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		if apart := p.options.Now().Sub(at).Abs(); apart > maxSkew {
			return fmt.Errorf("the clocks of this machine and of %s are %s apart: set this machine's", p.table.Address(), apart.Round(time.Minute))
		}
	}
	switch {
	case r.StatusCode < 400:
		return fmt.Errorf("%w: it answered with a redirect (%d), which is not followed with a credential: check url", lease.ErrRefused, r.StatusCode)
	case r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden ||
		r.StatusCode == http.StatusBadRequest || r.StatusCode == http.StatusUnprocessableEntity:
		refused := &statusError{code: r.StatusCode}
		_ = decode(r, "application/json", func(data []byte) error { return json.Unmarshal(data, &refused.said) }) // most say nothing more
		return refused
	}
	return fmt.Errorf("%s answered with status %d: try again", p.table.Address(), r.StatusCode)
}

// statusError is a provider's no, with what it said in JSON, which no error repeats.
type statusError struct {
	code int
	said refusal
}

// refusal is what providers say of a no: GitHub a message, Vault errors that are texts, Cloudflare errors
// with codes.
type refusal struct {
	Message string          `json:"message"`
	Success *bool           `json:"success"`
	Errors  json.RawMessage `json:"errors"`
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the provider refused with status %d: check what it is asked with and for", e.code)
}

// Unwrap implements errors.Is for lease.ErrRefused.
func (e *statusError) Unwrap() error { return lease.ErrRefused }

// gone reports whether a revocation was refused since there is nothing to revoke any more: with the one
// status, and in the words, that the provider has for it. Anything else may come from what stands in between.
func gone(err error, code int, says func(refusal) bool) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == code && says(status.said)
}

func decode(r *http.Response, want string, read func([]byte) error) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != want {
		return errors.New("the provider's answer is not " + want + ": a page of a proxy or a login may stand in between")
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err != nil || len(data) > maxAnswer {
		return errors.New("the provider's answer is too long, or was cut")
	}
	if read(data) != nil {
		return errors.New("the provider's answer cannot be read")
	}
	return nil
}

// checked is a credential that was given, or its end where it is not what was asked for.
func checked(ctx context.Context, to lease.Issuer, m lease.Minted, wrong error) (lease.Minted, error) {
	if m.Value.Empty() || m.Handle.Empty() {
		return lease.Minted{}, errEmpty
	}
	if wrong == nil {
		wrong = lease.CheckValue(m.Value)
	}
	if wrong == nil {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := to.Revoke(ctx, m.Handle); err != nil {
		return lease.Minted{}, fmt.Errorf("%w; taking it back failed: %s", wrong, err) //nolint:errorlint // it is out, whatever was refused
	}
	return lease.Minted{}, settled{wrong}
}

// life refuses an end that is not there, is over or is too late.
func (p provider) life(expires time.Time, most time.Duration) error {
	now := p.options.Now()
	if expires.IsZero() || expires.After(now.Add(most+maxSkew)) {
		return errLong
	}
	if !expires.After(now) {
		return errors.New("the provider gave a credential that is over: the clocks may be apart")
	}
	return nil
}

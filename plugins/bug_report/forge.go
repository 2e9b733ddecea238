package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of talking to a server.
const (
	maxResponse  = 16 << 20 // bytes
	maxPages     = 3        // of issues, the newest first, or of labels
	pageSize     = 50
	maxRedirects = 5
	httpTimeout  = 20 * time.Second
)

// The codes of what may go wrong with a server, beside the categories.
const (
	codeServer = "SERVER_ERROR"
	codeRate   = "RATE_LIMITED"
	codeRepo   = "NO_REPOSITORY"
)

// forge is the server of one repository, over GitHub's REST API or Gitea's.
type forge struct {
	config config
	token  nacre.Secret
	client *http.Client
}

func newForge(c config, token nacre.Secret) *forge {
	return &forge{config: c, token: token, client: &http.Client{
		Timeout: httpTimeout,
		Transport: &http.Transport{
			Proxy:             throughEgress,
			TLSClientConfig:   &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DisableKeepAlives: true, // a client lives for one call
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// throughEgress finds the way out of the sandbox, which the environment names. A server
// on this machine is behind it too: the sandbox's own loopback has none.
func throughEgress(r *http.Request) (*url.URL, error) {
	way := os.Getenv("HTTP_PROXY")
	if r.URL.Scheme == "https" {
		way = os.Getenv("HTTPS_PROXY")
	}
	if way == "" {
		return nil, nil //nolint:nilnil // the standard library's way to say that there is none
	}
	return url.Parse(way)
}

// check is what verify asks.
func (f *forge) check(ctx context.Context) error {
	var repo struct {
		Issues   *bool `json:"has_issues"`
		Archived bool  `json:"archived"`
	}
	if _, err := f.get(ctx, f.repo("", nil), &repo); err != nil {
		return err
	}
	if repo.Archived || repo.Issues != nil && !*repo.Issues {
		return issuesOff()
	}
	return nil
}

func issuesOff() error {
	return &plugin.ToolError{Code: "ISSUES_OFF", Message: "The repository takes no issues"}
}

// An issue is what both APIs tell of one.
type issue struct {
	Number int64  `json:"number"`
	Body   string `json:"body"`
	URL    string `json:"html_url"`
}

// fileOnce files a report unless it is there already. One that may have been
// filed before is not sent again until the server had time to show it.
func (f *forge) fileOnce(ctx context.Context, r report, o *once) (filed, error) {
	if there, err := f.find(ctx, r.marker); err != nil || there != nil {
		return f.already(there, err, o)
	}
	if waiting, err := o.unsettled(); err != nil || waiting {
		return filed{}, errors.Join(err, &plugin.ToolError{Code: "UNSETTLED", Retriable: true,
			Message: "The report was sent a moment ago and the server has not said whether it took it: try again in a minute"})
	}
	labels, err := f.labels(ctx, r.labels)
	if err != nil {
		return filed{}, err
	}
	if err := o.begin(); err != nil {
		return filed{}, err
	}
	var made issue
	err = f.post(ctx, f.repo("/issues", nil), map[string]any{"title": r.title, "body": r.body, "labels": labels}, &made)
	switch {
	case err == nil && made.Number > 0:
		return filed{Number: made.Number, URL: f.link(made)}, o.end()
	case err == nil || unknown(err):
		there, findErr := f.find(ctx, r.marker)
		if findErr == nil && there != nil {
			return f.already(there, nil, o)
		}
		return filed{}, &plugin.ToolError{Code: codeServer, Retriable: true,
			Message: "The server did not say whether it took the report. Try again in a minute: it is not filed twice"}
	}
	return filed{}, errors.Join(err, o.end())
}

func (f *forge) already(there *issue, err error, o *once) (filed, error) {
	if err != nil {
		return filed{}, err
	}
	return filed{Number: there.Number, URL: f.link(*there), Already: true}, o.end()
}

// unknown tells errors after which the issue may exist.
func unknown(err error) bool {
	var known *plugin.ToolError
	return !errors.As(err, &known) || known.Code == plugin.CategoryNetwork || known.Code == codeServer
}

// find looks for a report among the newest issues: servers' own searches know
// of an issue only later.
func (f *forge) find(ctx context.Context, marker string) (*issue, error) {
	query := url.Values{"state": {"all"}, "per_page": {strconv.Itoa(pageSize)}, "sort": {"created"}, "direction": {"desc"}}
	if f.config.Service == serviceGitea {
		query = url.Values{"state": {"all"}, "type": {"issues"}, "limit": {strconv.Itoa(pageSize)}}
	}
	var there *issue
	err := f.pages(ctx, f.repo("/issues", query), func(raw json.RawMessage) error {
		var page []issue
		if err := json.Unmarshal(raw, &page); err != nil {
			return odd()
		}
		i := slices.IndexFunc(page, func(i issue) bool { return strings.Contains(i.Body, "<!-- "+marker+" -->") })
		if i >= 0 && there == nil && page[i].Number > 0 {
			there = &page[i]
		}
		return nil
	})
	return there, err
}

// labels are names for GitHub. Gitea wants the numbers of labels that are
// there; others are left out.
func (f *forge) labels(ctx context.Context, names []string) (any, error) {
	if f.config.Service != serviceGitea {
		return append([]string{}, names...), nil
	}
	ids := []int64{}
	if len(names) == 0 {
		return ids, nil
	}
	return &ids, f.pages(ctx, f.repo("/labels", url.Values{"limit": {strconv.Itoa(pageSize)}}), func(raw json.RawMessage) error {
		var page []struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return odd()
		}
		for _, l := range page {
			if slices.Contains(names, l.Name) {
				ids = append(ids, l.ID)
			}
		}
		return nil
	})
}

// nextForm is the next page in a Link header (RFC 8288), as both APIs write it.
var nextForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<([^<>]+)>;\s*rel="next"`) })

// pages hands over one page after the other, at most maxPages.
func (f *forge) pages(ctx context.Context, at *url.URL, use func(json.RawMessage) error) error {
	for range maxPages {
		var raw json.RawMessage
		header, err := f.get(ctx, at, &raw)
		if err != nil {
			return err
		}
		if err := use(raw); err != nil {
			return err
		}
		next := nextForm().FindStringSubmatch(header.Get("Link"))
		if next == nil {
			return nil
		}
		if at, err = at.Parse(next[1]); err != nil {
			return odd()
		}
	}
	return nil
}

func (f *forge) repo(path string, query url.Values) *url.URL {
	u := f.config.api.JoinPath("repos", f.config.Repository)
	u.Path += path
	u.RawQuery = query.Encode()
	return u
}

// link is the address for people. What the server says is taken where it is
// this issue on this server; text of somebody else's does not reach the agent.
func (f *forge) link(i issue) string {
	host := strings.TrimPrefix(f.config.api.Host, "api.")
	tail := "/" + f.config.Repository + "/issues/" + strconv.FormatInt(i.Number, 10)
	if u, err := url.Parse(i.URL); err == nil && u.Scheme == f.config.api.Scheme && u.User == nil && u.RawQuery == "" && u.Fragment == "" &&
		(u.Host == host || u.Host == f.config.api.Host) && strings.HasSuffix(u.Path, tail) && wordPath(strings.TrimSuffix(u.Path, tail)) {
		return u.String()
	}
	path := strings.TrimSuffix(strings.TrimSuffix(f.config.api.Path, giteaPath), "/api/v3")
	return (&url.URL{Scheme: f.config.api.Scheme, Host: host, Path: path + tail}).String()
}

func wordPath(path string) bool { return path == "" || wordForm().MatchString(strings.Trim(path, "/")) }

func (f *forge) get(ctx context.Context, at *url.URL, to any) (http.Header, error) {
	for range maxRedirects {
		if at.Scheme != f.config.api.Scheme || at.Host != f.config.api.Host {
			return nil, &plugin.ToolError{Code: codeServer, Message: "The server sends us to another host: nothing was sent there"}
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
		if err != nil {
			return nil, err
		}
		a, err := f.do(r)
		if err != nil {
			return nil, err
		}
		if a.moved {
			if at, err = at.Parse(a.header.Get("Location")); err != nil {
				return nil, odd()
			}
			continue
		}
		if json.Unmarshal(a.body, to) != nil {
			return nil, odd()
		}
		return a.header, nil
	}
	return nil, &plugin.ToolError{Code: codeServer, Message: "The server redirects without end"}
}

func (f *forge) post(ctx context.Context, at *url.URL, content, to any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.GetBody = nil // nothing sends it a second time
	r.Header.Set("Content-Type", "application/json")
	a, err := f.do(r)
	if err != nil {
		return err
	}
	if a.moved {
		return &plugin.ToolError{Code: codeRepo, Message: "The repository was moved: the operator sets its new name in [plugins.bug_report]"}
	}
	if json.Unmarshal(a.body, to) != nil {
		return odd()
	}
	return nil
}

// An answer is a success, or a redirect that nobody has followed.
type answer struct {
	moved  bool
	header http.Header
	body   []byte
}

// do sends one request. Whatever is neither a success nor a redirect is a
// [plugin.ToolError] in words of ours.
func (f *forge) do(r *http.Request) (answer, error) {
	r.Header.Set("User-Agent", "nacre-bug-report")
	if f.config.Service == serviceGitea {
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Authorization", "token "+f.token.Reveal())
	} else {
		r.Header.Set("Accept", "application/vnd.github+json")
		r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
		r.Header.Set("Authorization", "Bearer "+f.token.Reveal())
	}
	response, err := f.client.Do(r)
	if err != nil {
		return answer{}, networkError(err)
	}
	defer func() { _ = response.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return answer{}, networkError(err)
	}
	if len(body) > maxResponse {
		return answer{}, odd()
	}
	if kind := response.StatusCode / 100; kind == 2 || kind == 3 {
		return answer{moved: kind == 3, header: response.Header, body: body}, nil
	}
	return answer{}, statusError(response)
}

func odd() error {
	return &plugin.ToolError{Code: codeServer, Message: "The server does not answer as its API does: the operator checks service and base_url in [plugins.bug_report]"}
}

func networkError(err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: "The server's certificate is not trusted: the operator can set ca in [plugins.bug_report]"}
	}
	return &plugin.ToolError{Code: plugin.CategoryNetwork, Retriable: true,
		Message: "The server cannot be reached. If that stays so: the operator has to list it in [access.bug_report] hosts"}
}

func statusError(r *http.Response) error {
	limited := r.Header.Get("X-Ratelimit-Remaining") == "0" || r.Header.Get("Retry-After") != ""
	switch code := r.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && limited:
		return &plugin.ToolError{Code: codeRate, Message: "The server takes no more requests for now: try again" + later(r.Header), Retriable: true}
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return &plugin.ToolError{Code: plugin.CategoryAuth, Message: "The server does not take the token: it is wrong or has expired"}
	case code == http.StatusForbidden:
		return &plugin.ToolError{Code: "FORBIDDEN", Message: "The token may not write issues in the repository"}
	case code == http.StatusNotFound:
		return &plugin.ToolError{Code: codeRepo, Message: "There is no such repository, or the token may not see it"}
	case code == http.StatusGone, code == http.StatusLocked:
		return issuesOff()
	case code >= 500:
		return &plugin.ToolError{Code: codeServer, Message: fmt.Sprintf("The server failed (HTTP %d)", code), Retriable: true}
	}
	return &plugin.ToolError{Code: "REFUSED", Message: fmt.Sprintf("The server refuses the report (HTTP %d): change title, description or labels", r.StatusCode)}
}

// later is when a server says that it takes requests again.
func later(h http.Header) string {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 24*3600 {
		return " later"
	}
	return fmt.Sprintf(" in %d seconds", seconds)
}

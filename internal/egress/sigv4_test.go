package egress_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" //nolint:gosec // of the algorithm's published examples
	region    = "us-east-1"
)

func keys(token string) func(context.Context) (egress.Material, error) {
	return func(context.Context) (egress.Material, error) {
		return egress.Material{Value: nacre.NewSecret(secretKey), AccessKey: nacre.NewSecret(accessKey), SessionToken: nacre.NewSecret(token)}, nil
	}
}

// verifyV4 checks a signature as the service does, from the published
// algorithm and from what arrived alone. It shares nothing with the signer.
func verifyV4(r received, service string) error {
	scheme, rest, _ := strings.Cut(r.header.Get("Authorization"), " ")
	fields := map[string]string{}
	for _, part := range strings.Split(rest, ", ") {
		k, v, _ := strings.Cut(part, "=")
		fields[k] = v
	}
	scope := strings.SplitN(fields["Credential"], "/", 2)
	if scheme != "AWS4-HMAC-SHA256" || len(scope) != 2 || scope[0] != accessKey {
		return fmt.Errorf("authorization %q", r.header.Get("Authorization"))
	}
	date := r.header.Get("X-Amz-Date")
	if at, err := time.Parse("20060102T150405Z", date); err != nil || time.Since(at).Abs() > 5*time.Minute {
		return fmt.Errorf("date %q", date)
	}
	if want := date[:8] + "/" + region + "/" + service + "/aws4_request"; scope[1] != want {
		return fmt.Errorf("scope %q", scope[1])
	}
	sum := sha256.Sum256([]byte(r.body))
	if hex.EncodeToString(sum[:]) != r.header.Get("X-Amz-Content-Sha256") {
		return fmt.Errorf("the digest is not the body's")
	}
	var canonical bytes.Buffer
	path, query, _ := strings.Cut(r.target, "?")
	if service == "s3" {
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return err
		}
		path = uriEncode(decoded, false)
	} else {
		path = uriEncode(path, false)
	}
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.method, path, sortedQuery(query))
	for _, name := range strings.Split(fields["SignedHeaders"], ";") {
		value := strings.Join(r.header.Values(name), ",")
		switch name {
		case "host":
			value = r.host
		case "content-length":
			value = fmt.Sprint(len(r.body))
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", fields["SignedHeaders"], hex.EncodeToString(sum[:]))
	hashed := sha256.Sum256(canonical.Bytes())
	text := "AWS4-HMAC-SHA256\n" + date + "\n" + scope[1] + "\n" + hex.EncodeToString(hashed[:])
	key := []byte("AWS4" + secretKey)
	for _, part := range append(strings.Split(scope[1], "/"), text) {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if hex.EncodeToString(key) != fields["Signature"] {
		return fmt.Errorf("the signature is another; canonical request:\n%s", canonical.String())
	}
	for name := range r.header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") && !strings.Contains(";"+fields["SignedHeaders"]+";", ";"+lower+";") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	return nil
}

func uriEncode(s string, slash bool) string {
	s = strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	s = strings.ReplaceAll(s, "%7E", "~")
	if !slash {
		s = strings.ReplaceAll(s, "%2F", "/")
	}
	return s
}

func sortedQuery(query string) string {
	if query == "" {
		return ""
	}
	parts := strings.Split(query, "&")
	sort.Strings(parts)
	return strings.Join(parts, "&")
}

// M-22: the proxy signs what is really sent, and the service's own check holds.
func TestRequestsAreSignedAnew(t *testing.T) {
	bothVersions(t, func(t *testing.T, http2 bool) {
		for _, c := range []struct {
			name, service, token, method, target, body, want string
			headers                                          map[string]string
		}{
			{"a plain read", "execute-api", "", "GET", "/things", "", "", nil},
			{"a query out of order", "execute-api", "", "GET", "/things?b=2&a=1&a=0&c", "", "/things?a=0&a=1&b=2&c=", nil},
			{"a query with signs", "execute-api", "", "GET", "/things?q=a+b%2Bc/d~e*", "", "/things?q=a%20b%2Bc%2Fd~e%2A", nil},
			{"a path with escapes", "execute-api", "", "GET", "/a%20b/c:d@e", "", "", nil},
			{"an object of S3", "s3", "", "PUT", "/bucket/a%20b/c%2Bd=e", "data", "", nil},
			{"an action of DynamoDB, with a token", "dynamodb", "IQoJb3JpZ2luX2VjEXAMPLETOKEN==", "POST", "/", `{"TableName":"t"}`, "", map[string]string{
				"X-Amz-Target": "DynamoDB_20120810.GetItem", "Content-Type": "application/x-amz-json-1.0"}},
			{"signed by the agent already", "execute-api", "", "GET", "/things?X-Amz-Signature=mine&X-Amz-Credential=mine&a=1", "", "/things?a=1", map[string]string{
				"Authorization": "AWS4-HMAC-SHA256 Credential=mine", "X-Amz-Date": "20200101T000000Z", "X-Amz-Security-Token": "mine", "X-Amz-Content-Sha256": "mine"}},
			{"white space in a header", "execute-api", "", "GET", "/things", "", "", map[string]string{"X-Amz-Meta-A": "a   b  c"}},
		} {
			v := newVault(t, nil, func(e *egress.Credential) {
				e.Scheme, e.Header, e.Region, e.Service, e.Material = egress.SchemeSigV4, "", region, c.service, keys(c.token)
				e.Paths, e.Methods = []string{"/"}, []string{"GET", "POST", "PUT"}
			})
			req, err := http.NewRequest(c.method, "https://example.com"+c.target, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range c.headers {
				req.Header.Set(name, value)
			}
			resp, err := v.client(t, http2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			got := v.requests()
			if len(got) != 1 {
				t.Fatalf("%s: status %d %s", c.name, resp.StatusCode, resp.Header)
			}
			if err := verifyV4(got[0], c.service); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.want != "" && got[0].target != c.want {
				t.Errorf("%s: the host got %s", c.name, got[0].target)
			}
			if got[0].body != c.body || got[0].header.Get("X-Amz-Security-Token") != c.token || strings.Contains(fmt.Sprint(got[0]), "mine") {
				t.Errorf("%s: the host got %+v", c.name, got[0])
			}
		}
	})
}

// The published example get-vanilla, whose signature everybody agrees on.
func TestThePublishedSignature(t *testing.T) {
	have := egress.SignedForTest("GET", "https://example.amazonaws.com/", region, "service", keys(""), time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
	if have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

func TestBodiesThatCannotBeSigned(t *testing.T) {
	v := newVault(t, nil, func(e *egress.Credential) {
		e.Scheme, e.Header, e.Region, e.Service, e.Material = egress.SchemeSigV4, "", region, "s3", keys("")
		e.Paths, e.Methods = []string{"/"}, []string{"PUT"}
	})
	for name, c := range map[string]struct {
		body   io.Reader
		coding string
		want   int
	}{
		"too large":                    {bytes.NewReader(make([]byte, 17<<20)), "", 431},
		"too large, of unknown length": {io.MultiReader(bytes.NewReader(make([]byte, 17<<20))), "", 431},
		"signed in chunks":             {strings.NewReader("x"), "aws-chunked", 400},
	} {
		req, _ := http.NewRequest("PUT", "https://example.com/b/k", c.body)
		if c.coding != "" {
			req.Header.Set("Content-Encoding", c.coding)
		}
		resp, err := v.client(t, true).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || len(v.requests()) != 0 {
			t.Errorf("%s: have %d", name, resp.StatusCode)
		}
	}
	req, _ := http.NewRequest("PUT", "https://example.com/b/k", bytes.NewReader(make([]byte, 15<<20)))
	resp, err := v.client(t, true).Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("15 MiB: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

package egress

import (
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/egress/fields"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// redirecting are headers that make a server act on another method, path or
// host than the request's.
var redirecting = []string{
	"x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url", "x-original-uri",
	"x-original-host", "x-original-method", "x-host", "x-real-ip", "x-url-scheme", "x-override-url", "x-http-path-override",
	"x-accel-redirect", "x-sendfile", "forwarded", "front-end-https", "x-path-info", "base-url", "request-uri", "destination",
	"client-ip", "true-client-ip", "x-client-ip", "x-cluster-client-ip", "x-originating-ip", "x-remote-ip", "x-remote-addr", "cf-connecting-ip",
	"x-object-manifest", "x-symlink-target", "script-name", "x-script-name", "x-now-route-matches", "x-nextjs-rewrite", "x-redirect-to",
	"x-method", "x-verb", "x-http-verb", "x-rest-method", "x-path", "x-uri", "x-url", "x-authority", "x-vhost", "x-virtual-host", "x-forwarded", "x-forward-for",
}

// redirectingParts do so wherever they stand in a name: a copy, above all,
// reads from a path that no credential may be for.
var redirectingParts = []string{"x-forwarded-", "x-envoy-", "x-middleware-", "copy-source", "copy-from", "rename-source", "move-source", "move-from"}

// places are words of headers that name a part of a request, and movers words that
// put it in place of the request's own: X-Request-URI, X-Waws-Unencoded-Url,
// X-Backend-Host. One framework or another has each pair. Some write both as one
// word, X-OriginalUrl, and some the mover last, X-HTTP-Host-Override.
var places = []string{"url", "uri", "path", "host", "hostname", "method", "authority"}

// lastMovers are those that stand behind what they replace.
var lastMovers = []string{"override", "overrides", "rewrite"}

var movers = []string{
	"original", "orig", "rewrite", "rewritten", "request", "requested", "target", "proxy", "backend", "upstream", "redirect", "invoke", "matched", "override",
	"overridden", "script", "real", "raw", "unencoded", "internal", "forward", "route", "effective", "actual", "replaced", "destination", "dest",
	"origin", "base", "http",
}

// moving reports whether a header's words do so. What browsers ask before a request is none.
func moving(name string) bool {
	words := strings.Split(name, "-")
	end := len(words) - 1
	if strings.HasPrefix(name, "access-control-") {
		return false
	}
	placed := func(word string) bool { return slices.Contains(places, word) }
	moved := func(word string) bool { return slices.Contains(movers, word) }
	switch {
	case words[end] == "destination", movesIt(words[end]):
		return true
	case placed(words[end]):
		return slices.ContainsFunc(words[:end], moved)
	}
	return slices.Contains(lastMovers, words[end]) && slices.ContainsFunc(words[:end], placed)
}

// movesIt tells a mover and a place in one word.
func movesIt(word string) bool {
	return slices.ContainsFunc(places, func(place string) bool {
		mover, ok := strings.CutSuffix(word, place)
		return ok && slices.Contains(movers, mover)
	})
}

// authentic are parts of the names of headers that say who asks.
var authentic = []string{
	"authorization", "cookie", "api-key", "apikey", "auth-key", "authkey", "access-key", "accesskey", "secret", "password", "passwd",
	"credential", "subscription-key", "application-key", "app-key", "auth-token", "authtoken", "access-token", "accesstoken",
	"functions-key", "master-key", "sas-key", "shared-key", "signature", "jwt", "assertion", "dpop",
	"client-cert", "client-principal", "authenticat", "authoris", "bearer", "passphrase", "x-wsse", "jfrog-art-api",
}

// keyHolders are the words before the -Key at the end of such a name: what other
// keys are, of idempotency, partitions or encryption, the host is told.
var keyHolders = []string{
	"x", "client", "user", "account", "admin", "consumer", "developer", "private", "license", "service", "project", "team", "write", "ingest", "insert",
	"integration", "clickhouse", "session",
}

// authenticNames are such names as a whole.
var authenticNames = []string{"auth", "key", "x-session", "x-session-id", "x-sid", "x-ticket", "x-pat", "pat", "x-otp", "x-github-otp", "x-totp", "pass", "x-pass", "x-pwd", "cb-access-sign"}

// authenticParameters are the parameters of queries that do.
var authenticParameters = []string{
	"access_token", "oauth_token", "auth_token", "private_token", "job_token", "id_token", "refresh_token", "bearer_token", "api_token",
	"api_key", "apikey", "x_api_key", "client_secret", "auth", "authorization", "password", "sig", "signature", "awsaccesskeyid", "googleaccessid",
	"x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token", "x-amz-signature", "x-amz-signedheaders",
	"x-goog-algorithm", "x-goog-credential", "x-goog-date", "x-goog-expires", "x-goog-signature", "x-goog-signedheaders",
}

// authenticates reports whether a header says who asks. What the agent sets so
// does not reach the host: it has no account there but the operator's.
func authenticates(name string) bool {
	name = fields.Spelled(name)
	holder, isKey := strings.CutSuffix(name, "-key")
	if isKey && slices.Contains(keyHolders, holder[strings.LastIndexByte(holder, '-')+1:]) || slices.Contains(authenticNames, name) {
		return true
	}
	return strings.HasSuffix(name, "token") || strings.HasSuffix(name, "-auth") || strings.HasPrefix(name, "x-auth") || name == "x-amz-date" ||
		name == "x-amz-content-sha256" || slices.ContainsFunc(authentic, func(part string) bool { return strings.Contains(name, part) })
}

// redirects reports whether a header would move a request elsewhere.
func redirects(name string) bool {
	name = fields.Named(name)
	return slices.Contains(redirecting, name) || moving(name) || fields.ChangesMethod(name) || slices.ContainsFunc(redirectingParts, func(part string) bool { return strings.Contains(name, part) })
}

// cleanHeaders are what of the agent's headers is sent on. A header that would
// move the request elsewhere, or make it another user's, refuses it.
func cleanHeaders(from http.Header, c Credential) (http.Header, error) {
	dropped := slices.Clone(hopByHop)
	for _, value := range from["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			dropped = append(dropped, lowerASCII(strings.Trim(name, " \t")))
		}
	}
	to := http.Header{}
	for name, values := range from {
		folded := fields.Spelled(name)
		switch {
		case folded == fields.Spelled(c.Header) && c.Header != "":
		case fields.ForAnother(name):
			return nil, refusal(ReasonRedirecting, "a header would make the host act for another user, which is the operator's to say: "+folded)
		case authenticates(name):
		case redirects(name):
			return nil, refusal(ReasonRedirecting, "a header would make the host act on another method, path or host: "+folded)
		case slices.Contains(dropped, lowerASCII(name)), slices.Contains(dropped, folded), folded == "accept-encoding", folded == "grpc-accept-encoding", folded == "connect-accept-encoding":
		default:
			to[name] = values
		}
	}
	// What is compressed cannot be searched.
	to.Set("Accept-Encoding", "identity")
	if slices.Equal(from["Te"], []string{"trailers"}) {
		to.Set("Te", "trailers") // what gRPC's servers insist on
	}
	if _, ok := to["User-Agent"]; !ok {
		to["User-Agent"] = []string{""} // none is added
	}
	return to, nil
}

// mountParameters have a registry of images take a layer from another repository
// than the path's; without them the layer is uploaded.
var mountParameters = []string{"mount", "from"}

// cleanQuery takes parameters that authenticate, and those that reach beyond the
// path, out of a query, and leaves the rest as it was written. A parameter that
// would change the method, or for whom it is, refuses it.
func cleanQuery(query, path string, c Credential) (string, error) {
	decoded, _ := urlpath.Unescape(path) // it was checked
	uploads := strings.Contains(decoded, "/blobs/uploads")
	var kept strings.Builder
	for query != "" {
		end := strings.IndexAny(query, "&;")
		piece, mark := query, ""
		if end >= 0 {
			piece, mark, query = query[:end], query[end:end+1], query[end+1:]
		} else {
			query = ""
		}
		name, value, _ := strings.Cut(piece, "=")
		name = fields.Parameter(name)
		switch {
		case fields.ChangesMethod(name):
			return "", refusal(ReasonRedirecting, "a parameter would make the host act on another method: "+name)
		case slices.ContainsFunc(authenticParameters, func(other string) bool { return fields.Spelled(other) == fields.Spelled(name) }), isSecret(name, value), c.Query != "" && name == fields.Parameter(c.Query):
		case fields.ForAnother(name):
			return "", refusal(ReasonRedirecting, "a parameter would make the host act for another user, which is the operator's to say: "+name)
		case uploads && slices.Contains(mountParameters, name):
		default:
			kept.WriteString(piece + mark)
		}
	}
	return kept.String(), nil
}

// secretParameters are parameters that say who asks at some hosts, and something else at others:
// what has the shape of a secret is one.
var secretParameters = []string{"token", "key"}

// isSecret reports whether a parameter of a query is such a secret.
func isSecret(name, value string) bool {
	if !slices.Contains(secretParameters, name) {
		return false
	}
	decoded, _ := urlpath.Unescape(value)
	clean, _ := redact.New().String(decoded)
	return clean != decoded
}

package egress

import (
	"strings"

	"github.com/nacre-dev/nacre/internal/urlpath"
)

// splitTarget reads the origin-form of a request's target, and refuses a path
// that two servers could take for two places.
func splitTarget(s string) (path, query string, err error) {
	path, query, _ = strings.Cut(s, "?")
	if path == "" || path[0] != '/' {
		return "", "", refusal(ReasonTarget, "a request in the tunnel names a path that begins with /")
	}
	if err := urlpath.Check(path); err != nil {
		return "", "", refusal(ReasonPath, err.Error())
	}
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c > '~' || c == '#' {
			return "", "", refusal(ReasonTarget, "a query on the wire is visible ASCII without #")
		}
	}
	return path, query, nil
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

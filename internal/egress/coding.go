package egress

import (
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/unpack"
)

// searchable are the codings of a body that can be looked into, or are none.
var searchable = []string{"gzip", "x-gzip", "deflate", "identity", "utf-8", "utf8", "amz-1.0", "none", "binary"}

// codingsOf lists the codings that headers of a name say, in small letters.
func codingsOf(headers http.Header, name string) (codings []string) {
	for _, value := range headers[name] {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = lowerASCII(strings.TrimSpace(coding)); coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	return codings
}

// searchableBody refuses a body that is said to be in a coding that is not known here.
func searchableBody(headers http.Header) error {
	codings := codingsOf(headers, "Content-Encoding")
	for _, coding := range codings {
		if !slices.Contains(searchable, coding) {
			return opaqueBody("another coding than gzip and deflate")
		}
	}
	if len(codings) > unpack.MaxNested {
		return opaqueBody("more than two codings")
	}
	for _, name := range framedCodings {
		for _, coding := range codingsOf(headers, name) {
			if coding != "gzip" {
				return opaqueBody("messages in another coding than gzip")
			}
		}
	}
	return nil
}

func opaqueBody(what string) error {
	return refusal(ReasonOpaque, "a body to a host that holds a credential is looked into for what must not leave, and "+what+
		" cannot be. Send it in gzip or as it is. Or the operator sets canary = \"notify\" under [tripwires], and it is not looked into")
}

package egress

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/leak"
)

// answering brings one answer of an opened host inside, searched for the
// credential's values.
type answering struct {
	w        http.ResponseWriter
	resp     *http.Response
	secrets  []string
	scan     *leak.Scan
	bodiless bool
	// begun says that the client was sent any of it.
	begun    bool
	received int64
}

// run says why the answer ended; ReasonDone says that it is whole.
func (a *answering) run() Reason {
	if a.resp.StatusCode < 200 {
		return ReasonUpstream // another protocol was not asked for
	}
	body, plain, reason := a.decoded()
	if reason != ReasonDone {
		return reason
	}
	if a.leaks(a.resp.Header) {
		return ReasonLeak
	}
	partial := a.isPart()
	if partial {
		if body, reason = a.part(body); reason != ReasonDone {
			return reason
		}
	}
	a.head(plain)
	if a.bodiless {
		a.begun = true
		a.w.WriteHeader(a.resp.StatusCode)
		return ReasonDone
	}
	return a.body(body, partial)
}

// decoded gives the body so that it can be searched; plain says that it is as
// the host sent it.
func (a *answering) decoded() (body io.Reader, plain bool, reason Reason) {
	codings := codingsOf(a.resp.Header, "Content-Encoding")
	if !a.bodiless && slices.ContainsFunc(framedCodings, func(name string) bool { return isPacked(a.resp.Header[name]) }) {
		return nil, false, ReasonEncoded
	}
	if len(codings) == 0 || a.bodiless {
		return a.resp.Body, true, ReasonDone
	}
	if len(codings) > 1 || a.isPart() {
		return nil, false, ReasonEncoded
	}
	var err error
	switch codings[0] {
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(a.resp.Body)
	case "deflate":
		body, err = zlib.NewReader(a.resp.Body)
	default:
		return nil, false, ReasonEncoded
	}
	if errors.Is(err, io.EOF) {
		return http.NoBody, false, ReasonDone // nothing, encoded as nothing
	}
	if err != nil {
		return nil, false, ReasonEncoded
	}
	return body, false, ReasonDone
}

// framedCodings name the coding of each message within a body.
var framedCodings = []string{"Grpc-Encoding", "Connect-Content-Encoding"}

func isPacked(codings []string) bool {
	return slices.ContainsFunc(codings, func(c string) bool { return c != "" && c != "identity" })
}

// leaks searches headers, names and all, each as a text of its own.
func (a *answering) leaks(headers http.Header) bool {
	for name, values := range headers {
		if a.named(name) {
			return true
		}
		for _, value := range values {
			a.scan.Reset()
			if _, leak := a.scan.Feed([]byte(name + ": " + value)); leak {
				return true
			}
		}
	}
	return false
}

// named reports whether a header's name holds a value. Names come in other letters than they were
// sent in, and they tell most of a value all the same.
func (a *answering) named(name string) bool {
	name = lowerASCII(name)
	return slices.ContainsFunc(a.secrets, func(secret string) bool { return strings.Contains(name, lowerASCII(secret)) })
}

// notAnswered are headers of an answer that end here: of the connection, and of
// a session that the host would begin with whoever holds its cookies.
var notAnswered = append(slices.Clone(hopByHop), "set-cookie", "set-cookie2", "alt-svc")

func (a *answering) head(plain bool) {
	dropped := slices.Clone(notAnswered)
	for _, value := range a.resp.Header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			dropped = append(dropped, lowerASCII(strings.TrimSpace(name)))
		}
	}
	to := a.w.Header()
	for name, values := range a.resp.Header {
		if lower := lowerASCII(name); !slices.Contains(dropped, lower) && (plain || lower != "content-encoding") {
			to[name] = values
		}
	}
	if plain && a.resp.ContentLength >= 0 && a.resp.StatusCode != http.StatusNoContent {
		to.Set("Content-Length", strconv.FormatInt(a.resp.ContentLength, 10))
	}
	for _, name := range []string{"Date", "Content-Type"} {
		if to[name] == nil {
			to[name] = nil // none is made up
		}
	}
}

// body passes the answer on as it comes. Of an answer with a leak the client
// gets what came before it, and no end. A part of one must not end in a leak.
func (a *answering) body(body io.Reader, partial bool) Reason {
	a.scan.Reset()
	packed := archive{secrets: a.secrets, partial: partial}
	packed.search.Inspect, packed.search.Refuse = packed.inspect, unsearchable
	defer func() { _ = packed.search.Finish() }() // ends what still unpacks
	buf := make([]byte, bufferSize)
	for {
		n, err := body.Read(buf)
		clear, leak := a.scan.Feed(buf[:n])
		if reason := packed.next(buf[:n], err != nil); reason != ReasonDone {
			return reason
		}
		switch {
		case leak, partial && errors.Is(err, io.EOF) && a.scan.Begun():
			return ReasonLeak
		case errors.Is(err, io.EOF):
			clear = append(clear[:len(clear):len(clear)], a.scan.Rest()...)
		case err != nil:
			return ReasonReset
		}
		if clear = packed.hold(clear, err != nil); len(clear) > 0 || err != nil {
			if reason := a.write(clear); reason != ReasonDone {
				return reason
			}
		}
		if err != nil {
			return a.trailers()
		}
	}
}

func (a *answering) write(b []byte) Reason {
	if !a.begun {
		a.begun = true
		a.w.WriteHeader(a.resp.StatusCode)
	}
	if len(b) == 0 {
		return ReasonDone
	}
	n, err := a.w.Write(b)
	a.received += int64(n)
	if err != nil {
		return ReasonReset
	}
	if f, ok := a.w.(http.Flusher); ok {
		f.Flush()
	}
	return ReasonDone
}

// trailers follow the body where the client's protocol has them.
func (a *answering) trailers() Reason {
	if a.leaks(a.resp.Trailer) {
		return ReasonLeak
	}
	for name, values := range a.resp.Trailer {
		if !slices.Contains(notAnswered, lowerASCII(name)) {
			a.w.Header()[http.TrailerPrefix+name] = values
		}
	}
	return ReasonDone
}

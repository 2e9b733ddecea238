package httpdriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// minSecret is the shortest secret that is looked for in answers, in bytes: a
// shorter one would be found everywhere.
const minSecret = 6

// redacted replaces a secret that a service repeats.
const redacted = "[REDACTED]"

// read turns an answer into JSON. An answer without a body is null.
func (d *Driver) read(response *http.Response) (json.RawMessage, error) {
	if err := statusError(response.StatusCode); err != nil {
		return nil, err
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fmt.Errorf("the answer is encoded as %.20q, which was not asked for", encoding)
	}
	if response.ContentLength > int64(d.maxResponse) {
		return nil, fmt.Errorf("the answer has %d bytes, the limit is %d", response.ContentLength, d.maxResponse)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, int64(d.maxResponse)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("answer: %w", err)
	case len(raw) > d.maxResponse:
		return nil, fmt.Errorf("the answer has more than %d bytes", d.maxResponse)
	case len(raw) == 0:
		return json.RawMessage("null"), nil
	case !isJSON(response.Header.Get("Content-Type")):
		return nil, errors.New("the answer is not application/json")
	}
	raw = d.endpoint.withoutSecrets(raw)
	limits := wire.Limits{Message: len(raw), String: len(raw), CaseSensitive: true}
	if err := wire.Check(raw, limits); err != nil {
		return nil, fmt.Errorf("the answer is not usable JSON: %w", err)
	}
	return bytes.TrimSpace(raw), nil
}

// statusError says who can do something about an answer.
func statusError(status int) error {
	text := fmt.Sprintf("the service answered %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status < 400, status >= 500, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return errors.New(text)
	}
	again := status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
	return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: text, Retriable: again}
}

func isJSON(contentType string) bool {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// withoutSecrets cuts out of an answer what the request proved itself with, as
// services do that show a request to whoever sent it.
func (e *endpoint) withoutSecrets(raw []byte) []byte {
	known := slices.AppendSeq(slices.Collect(maps.Values(e.secrets)), maps.Values(e.hidden))
	for _, secret := range known {
		value := secret.Reveal()
		if _, after, scheme := strings.Cut(value, " "); scheme { // "Bearer …"
			value = after
		}
		if len(value) < minSecret {
			continue
		}
		raw = bytes.ReplaceAll(raw, []byte(value), []byte(redacted))
		quoted := wire.AppendText(nil, value)
		raw = bytes.ReplaceAll(raw, quoted[1:len(quoted)-1], []byte(redacted))
	}
	return raw
}

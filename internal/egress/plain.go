package egress

import (
	"io"
	"net/http"
)

// requestList are the requests that each host may be asked, of those that are not asked
// anything.
type requestList map[target][]Credential

// listed says whether a request over plain HTTP is one of those that its host may be
// asked, and nothing in its head makes another one of it. A host that is not in the list may be
// asked anything.
func (l requestList) listed(t target, h *head, path string) error {
	list := l[t]
	if len(list) == 0 {
		return nil
	}
	path, query, err := splitTarget(path)
	if err != nil {
		return err
	}
	c, reason := choose(list, h.method, path)
	if reason != ReasonListed {
		return refusal(reason, "")
	}
	if _, err := cleanHeaders(h.fields(), c); err != nil {
		return err
	}
	_, err = cleanQuery(query, path, c)
	return err
}

// guarded is the body of such a request, as far as it makes no other one of it.
func (l requestList) guarded(t target, h *head, body io.ReadCloser) (io.ReadCloser, error) {
	if len(l[t]) == 0 {
		return body, nil
	}
	return guardForm(h.method, body, h.fields())
}

// fields are the headers as net/http has them.
func (h *head) fields() http.Header {
	all := http.Header{}
	for _, f := range h.headers {
		all.Add(f.name, f.value)
	}
	return all
}

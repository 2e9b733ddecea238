package handle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/nacre-dev/nacre"
)

// ParseQuery reads a query strictly: an object of offset, limit, fields and
// filter, each once and of its type. Any error is an *Error.
func ParseQuery(raw json.RawMessage) (nacre.Query, error) {
	var q nacre.Query
	if len(raw) > MaxQuery {
		return q, invalid("query is over %d bytes", MaxQuery)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return q, invalid("query must be an object of offset, limit, fields, filter, path, from and unit")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		key, ok := name.(string)
		if err != nil || !ok || seen[key] {
			return q, invalid("query is malformed, or has %.40q twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return q, invalid("query is malformed")
		}
		if err := set(&q, key, value); err != nil {
			return q, err
		}
	}
	if _, err := d.Token(); err != nil {
		return q, invalid("query is malformed")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, invalid("query has something after it")
	}
	return q, valid(q)
}

func set(q *nacre.Query, key string, value json.RawMessage) error {
	var into any
	switch key {
	case "offset":
		into = &q.Offset
	case "limit":
		into = &q.Limit
	case "fields":
		into = &q.Fields
	case "filter":
		into = &q.Filter
	case "path":
		into = &q.Path
	case "from":
		into = &q.From
	case "unit":
		into = &q.Unit
	default:
		return invalid("query has no %.40q: one of offset, limit, fields, filter, path, from, unit", key)
	}
	if json.Unmarshal(value, into) != nil || key != "limit" && string(value) == "null" {
		return invalid("%s is of the wrong type", key)
	}
	return nil
}

// valid checks a query by itself.
func valid(q nacre.Query) error {
	switch {
	case q.Offset < 0:
		return invalid("offset must not be negative")
	case q.Limit != nil && *q.Limit < 0:
		return invalid("limit must not be negative")
	case q.From < 0:
		return invalid("from must not be negative")
	case q.Unit != "" && q.Unit != UnitCharacters && q.Unit != UnitLines:
		return invalid("unit is characters or lines, not %.40q", q.Unit)
	case len(q.Path) > MaxPath:
		return invalid("path is over %d bytes", MaxPath)
	case len(q.Fields) > MaxNamed || len(q.Filter) > MaxFilters:
		return invalid("query is over %d fields, or filters by more than %d", MaxNamed, MaxFilters)
	}
	size := 0
	for _, value := range q.Filter {
		if size += len(value); size > MaxQuery || !json.Valid(value) {
			return invalid("filter is over %d bytes, or not JSON", MaxQuery)
		}
	}
	return nil
}

// within checks a query against what the grant allows. To filter by a field is
// to learn of it.
func within(q nacre.Query, c nacre.Constraints) error {
	for _, field := range q.Fields {
		if c.AllowedFields != nil && !slices.Contains(c.AllowedFields, field) {
			return violation("field %.40q is not allowed by the grant", field)
		}
	}
	for field, value := range q.Filter {
		if want, scoped := c.Scope[field]; scoped {
			var have string
			if json.Unmarshal(value, &have) != nil || have != want || value[0] != '"' {
				return violation("filter on %.40q is outside of the grant's scope", field)
			}
			continue // it says nothing new
		}
		if c.AllowedFields != nil && !slices.Contains(c.AllowedFields, field) {
			return violation("filter on %.40q is not allowed by the grant", field)
		}
	}
	return nil
}

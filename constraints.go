package nacre

import (
	"encoding/json"
	"slices"
)

// Constraints narrow what a grant allows (K-05, K-10). The zero value narrows
// nothing; each field that is set takes something away.
type Constraints struct {
	// MaxRows is how many rows of a result may be seen in all, over every page.
	MaxRows *int `json:"max_rows,omitzero"`
	// AllowedFields are the only fields of rows that may be seen; nil means
	// all, an empty list means none.
	AllowedFields []string `json:"allowed_fields,omitzero"`
	// Scope keeps only the rows whose fields have these values.
	Scope map[string]string `json:"scope,omitzero"`
	// Arguments limits what the capability may be called with.
	Arguments ArgumentLimits `json:"arguments,omitzero"`
}

// ArgumentLimits are limits on the top level of a call's arguments. A limit
// that an argument cannot be held against refuses the call.
type ArgumentLimits struct {
	// AllowedKeys are the only arguments there may be; nil means any.
	AllowedKeys []string `json:"allowed_keys,omitzero"`
	// Pinned arguments must be there with exactly this JSON value.
	Pinned map[string]json.RawMessage `json:"pinned,omitzero"`
	// Prefix arguments must be there as strings that begin with this, and a
	// path among them must not climb out of it.
	Prefix map[string]string `json:"prefix,omitzero"`
}

// IsZero reports whether nothing is narrowed.
func (c Constraints) IsZero() bool {
	return c.MaxRows == nil && c.AllowedFields == nil && c.Scope == nil && c.Arguments.IsZero()
}

// IsZero reports whether nothing is limited.
func (a ArgumentLimits) IsZero() bool {
	return a.AllowedKeys == nil && a.Pinned == nil && a.Prefix == nil
}

// Clone shares no memory with c.
func (c Constraints) Clone() Constraints {
	if c.MaxRows != nil {
		rows := *c.MaxRows
		c.MaxRows = &rows
	}
	c.AllowedFields = slices.Clone(c.AllowedFields)
	c.Scope = cloneMap(c.Scope)
	c.Arguments.AllowedKeys = slices.Clone(c.Arguments.AllowedKeys)
	c.Arguments.Pinned = cloneMap(c.Arguments.Pinned)
	for key, value := range c.Arguments.Pinned {
		c.Arguments.Pinned[key] = slices.Clone(value)
	}
	c.Arguments.Prefix = cloneMap(c.Arguments.Prefix)
	return c
}

func cloneMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return nil
	}
	own := make(map[string]V, len(m))
	for key, value := range m {
		own[key] = value
	}
	return own
}

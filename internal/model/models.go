package model

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// listed is one model in the form of both vendors at once.
type listed struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Type    string `json:"type"`
	Name    string `json:"display_name"`
	Created int64  `json:"created"`
	Since   string `json:"created_at"`
	Owner   string `json:"owned_by"`
}

// isModels reports whether a request asks what models there are. Its query,
// such as a client's version, goes nowhere.
func isModels(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return r.Method == http.MethodGet && path == modelsPath
}

// listModels answers what may be asked for, out of the prices; the upstreams are not asked.
func (g *Gateway) listModels(w http.ResponseWriter) {
	ids := map[string]bool{}
	for _, u := range g.upstreams {
		if u.Lacks != "" {
			continue
		}
		names := u.Models
		if len(names) == 0 {
			names = slices.Collect(maps.Keys(u.Prices))
		}
		for _, id := range names {
			if _, err := u.Prices.Lookup(id); err == nil {
				ids[id] = true
			}
		}
	}
	data := []listed{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		data = append(data, listed{id, "model", "model", id, 0, "1970-01-01T00:00:00Z", "nacre"})
	}
	patient(w, g.limits.Idle)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "has_more": false}) // a client that is gone needs no answer
}

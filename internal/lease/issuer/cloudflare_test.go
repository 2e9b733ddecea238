package issuer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
)

const (
	cloudAccount = "01a7362d577a6c3019a474fd6f485823"
	cloudGroup   = "c8fed203ed3043cba015a93ad1616f1f"
	cloudZone    = "com.cloudflare.api.account.zone.eb78d65290b24279ba6f44721b3ea3c4"
)

// cloudflare speaks Cloudflare's API of the tokens of an account.
type cloudflare struct{ shelf }

func (c *cloudflare) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.Cloudflare, URL: url, Account: cloudAccount, Groups: []string{cloudGroup}, Resources: []string{cloudZone}}
}

func (c *cloudflare) root() string { return vaultRoot }

func (c *cloudflare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const path = "/client/v4/accounts/" + cloudAccount + "/tokens"
	var asked struct {
		Name     string           `json:"name"`
		Policies []map[string]any `json:"policies"`
		Expires  time.Time        `json:"expires_on"`
	}
	id, one := strings.CutPrefix(r.URL.Path, path+"/id-of-")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+vaultRoot:
		w.WriteHeader(http.StatusForbidden)
		return
	case r.Method == http.MethodDelete && one:
		if !c.end(id) {
			said(w, http.StatusNotFound, `{"success":false,"errors":[{"code":1000,"message":"not found"}],"result":null}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": map[string]string{"id": "id-of-" + id}})
		return
	case r.Method != http.MethodPost || r.URL.Path != path || json.NewDecoder(r.Body).Decode(&asked) != nil || len(asked.Policies) != 1 || time.Until(asked.Expires) > 15*time.Minute:
		w.WriteHeader(http.StatusBadRequest)
		return
	case astray(w, r, c.now()):
		return
	}
	value, how := c.give()
	result := map[string]any{"id": "id-of-" + value, "value": value, "name": asked.Name, "status": "active", "expires_on": asked.Expires, "policies": asked.Policies}
	policy := asked.Policies[0]
	switch how {
	case "all that there is":
		policy["resources"] = map[string]string{"com.cloudflare.api.account.*": "*"}
	case "more than was asked":
		result["policies"] = []map[string]any{policy, {"effect": "allow", "resources": map[string]string{"com.cloudflare.api.account." + cloudAccount: "*"}, "permission_groups": []map[string]string{{"id": cloudGroup}}}}
	case "a higher level":
		policy["permission_groups"] = []map[string]string{{"id": cloudGroup}, {"id": "e6d2666161e84845a636613608cee8d5"}}
	case "another object":
		policy["resources"] = map[string]string{cloudZone: "*", strings.Replace(cloudZone, "eb78", "0000", 1): "*"}
	case "no end":
		delete(result, "expires_on")
	case "a late end":
		result["expires_on"] = time.Now().Add(24 * time.Hour)
	case "an end that is over":
		result["expires_on"] = time.Now().Add(-time.Hour)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "errors": []string{}, "messages": []string{}, "result": result})
}

// M-32: a table for all objects of a kind, or for nothing, is refused before anybody is asked.
func TestTablesOfCloudflareThatAskForEverything(t *testing.T) {
	t.Parallel()
	good := (&cloudflare{}).table("")
	if _, err := issuer.New(good, issuer.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*lease.Minting){
		"no account":               func(m *lease.Minting) { m.Account = "" },
		"a path as the account":    func(m *lease.Minting) { m.Account = "../../user" },
		"no groups":                func(m *lease.Minting) { m.Groups = nil },
		"no resources":             func(m *lease.Minting) { m.Resources = nil },
		"all zones":                func(m *lease.Minting) { m.Resources = []string{"com.cloudflare.api.account.zone.*"} },
		"a kind without an object": func(m *lease.Minting) { m.Resources = []string{"com.cloudflare.api.account.zone"} },
		"a group by its name":      func(m *lease.Minting) { m.Groups = []string{"Zone Write"} },
		"policies too":             func(m *lease.Minting) { m.Policies = []string{"deploy"} },
	} {
		table := good
		edit(&table)
		if _, err := issuer.New(table, issuer.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

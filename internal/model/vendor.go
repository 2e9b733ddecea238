package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// What of a vendor's own tools an operator can grant. All others run code,
// act on machines or keep data at the vendor, and nothing grants them.
const (
	// webSearch lets the vendor search the web for the model.
	webSearch = "web_search"
	// webFetch lets it fetch addresses that are in the conversation (Anthropic only).
	webFetch = "web_fetch"
)

// VendorTools are the names of what can be granted.
func VendorTools() []string { return []string{webSearch, webFetch} }

const (
	// maxVendorUses is how often a vendor's tool may be used in one call.
	maxVendorUses = 10
	// maxFetchTokens is the most that one fetch may bring in.
	maxFetchTokens = 100_000
	// searchResultTokens is what one search is taken to bring in; no vendor bounds it.
	searchResultTokens = 8_000
	// anthropicSearch and openaiSearch are what one search costs at most, in
	// micro-dollars: $10 and $25 a thousand.
	anthropicSearch = 10_000
	openaiSearch    = 25_000
)

// allowed is what one session's brain may ask for.
type allowed struct {
	betas       []string
	vendorTools []string
}

func (v *vendorUse) granted(tool string) bool { return slices.Contains(v.vendorTools, tool) }

// uses notes that the vendor may use a tool so often in this call.
func (v *vendorUse) uses(times, tokens, fee int64) {
	v.searches += times
	v.vendorTokens, v.fee = max(v.vendorTokens, tokens), max(v.fee, fee)
}

// vendorFees are the most that the vendor's tools can cost beside their tokens.
func (v *vendorUse) vendorFees() int64 { return v.searches * v.fee }

// searchFee is what one search costs. One that was never granted is paid too:
// it was done.
func (v *vendorUse) searchFee() int64 { return max(v.fee, anthropicSearch) }

// searchTokens estimates what the vendor reads more, because of its tools:
// after each use it reads everything again, and what the uses before it found.
func (r *request) searchTokens() int64 {
	return r.searches*r.readTokens() + r.searches*(r.searches+1)/2*r.vendorTokens
}

// ungranted refuses a vendor's tool, and says whether the operator could let it through.
func ungranted(kind string) *refusal {
	for _, name := range VendorTools() {
		if strings.HasPrefix(kind, name) {
			return refuse(ReasonVendorTool, "the tool type %.64q is refused: the operator has not granted %s (vendor_tools)", kind, name)
		}
	}
	return refuse(ReasonVendorTool, "the tool type %.64q is refused: only the client's own tools may be used", kind)
}

// anthropicVendorTools are the versions of what can be granted. Later ones run
// code at the vendor to filter what they find.
var anthropicVendorTools = map[string]string{"web_search_20250305": webSearch, "web_fetch_20250910": webFetch}

// vendorBetas are the features without which a granted tool is not there.
var vendorBetas = map[string]string{"web-fetch-2025-09-10": webFetch}

// vendorBlocks are the blocks that a granted tool leaves in a conversation.
var vendorBlocks = map[string]string{"web_search_tool_result": webSearch, "web_fetch_tool_result": webFetch}

// checkVendorTool accepts a tool that runs at Anthropic, if it is granted and
// says how often it may be used.
func (c messagesCall) checkVendorTool(kind string, fields map[string]json.RawMessage) error {
	grant, known := anthropicVendorTools[kind]
	if !known || !c.granted(grant) {
		return ungranted(kind)
	}
	allowed := []string{"type", "name", "max_uses", "allowed_domains", "blocked_domains", "cache_control"}
	tokens := int64(searchResultTokens)
	if grant == webFetch {
		allowed = append(allowed, "citations", "max_content_tokens")
		var err error
		if tokens, err = count(fields, "max_content_tokens", maxFetchTokens); err != nil {
			return err
		}
	} else {
		allowed = append(allowed, "user_location")
	}
	times, err := count(fields, "max_uses", maxVendorUses)
	if err != nil {
		return err
	}
	c.tools++
	c.uses(times, tokens, anthropicSearch)
	return onlyFields(fields, kind, allowed...)
}

// count reads a number that bounds what a tool does; it may not be missing.
func count(fields map[string]json.RawMessage, key string, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(fields[key]), 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("want %s from 1 to %d", key, most)
	}
	return n, nil
}

// checkVendorBlock accepts what a granted tool left. Its addresses are what
// was found, and are shown, not fetched.
func (c messagesCall) checkVendorBlock(kind string, fields map[string]json.RawMessage) (known bool, err error) {
	if kind == "server_tool_use" {
		name, _ := text(fields["name"])
		if !c.granted(name) {
			return true, refuse(ReasonContentBlock, "a use of the vendor's tool %.64q: the operator has not granted it", name)
		}
		return true, onlyFields(fields, kind, "type", "id", "name", "input", "cache_control")
	}
	grant, known := vendorBlocks[kind]
	if !known || !c.granted(grant) {
		return false, nil
	}
	c.opaque += len(fields["content"])
	return true, onlyFields(fields, kind, "type", "tool_use_id", "content", "cache_control")
}

// openaiSearchTools are the types of the search that can be granted.
var openaiSearchTools = []string{"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}

// checkSearchTool accepts OpenAI's search, if it is granted.
func (c responsesCall) checkSearchTool(kind string, fields map[string]json.RawMessage) error {
	if !slices.Contains(openaiSearchTools, kind) || !c.granted(webSearch) {
		return ungranted(kind)
	}
	c.openaiSearch = true
	if filters, ok := fields["filters"]; ok && !isNull(filters) {
		if err := checkFields(filters, "filters", "allowed_domains"); err != nil {
			return err
		}
	}
	return onlyFields(fields, kind, "type", "filters", "search_context_size", "user_location", "external_web_access")
}

// boundSearches sets how often OpenAI may search in one call.
func (r *request) boundSearches() {
	if !r.openaiSearch {
		return
	}
	if r.maxCalls == 0 {
		r.maxCalls = maxVendorUses
		r.set("max_tool_calls", json.RawMessage(strconv.Itoa(maxVendorUses)))
	}
	r.uses(r.maxCalls, searchResultTokens, openaiSearch)
}

// addBetas sends on the features that are on the list, and notes the others.
func (may allowed) addBetas(out, in http.Header) (left dropped) {
	var wanted []string
	for _, line := range in.Values("Anthropic-Beta") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			grant, ofTool := vendorBetas[name]
			switch {
			case name == "" || name == loginBeta || slices.Contains(wanted, name):
			case slices.Contains(may.betas, name), ofTool && slices.Contains(may.vendorTools, grant):
				wanted = append(wanted, name)
			default:
				left.add(name)
			}
		}
	}
	if len(wanted) > 0 {
		out.Set("Anthropic-Beta", strings.Join(wanted, ","))
	}
	return left
}

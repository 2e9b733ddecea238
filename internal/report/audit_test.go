package report_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/report"
)

// S-08: only a verdict that is exactly a pass, and that nothing else in its
// report contradicts, lets work land.
func TestAnAuditorsVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		report string
		why    string // a part of it; empty: it passes
	}{
		"a pass":                           {`{"verdict":"pass","findings":[]}`, ""},
		"a pass in front matter":           {"---\nverdict: pass\nfindings:\n  - severity: LOW\n---\nFine.", ""},
		"a pass with findings":             {`{"verdict":"pass","findings":[{"severity":"MEDIUM"},{"severity":"INFO"}]}`, ""},
		"a fail":                           {`{"verdict":"fail"}`, `the verdict is "fail"`},
		"no verdict":                       {`{"summary":"pass"}`, "has no verdict"},
		"a verdict that is no text":        {`{"verdict":true}`, "has no verdict"},
		"another spelling":                 {`{"verdict":"Pass"}`, `the verdict is "Pass"`},
		"a pass with more":                 {`{"verdict":"pass, but"}`, `the verdict is "pass, but"`},
		"two verdicts":                     {`{"verdict":"fail","verdict":"pass"}`, "JSON"},
		"a verdict in words":               {`I pass it.`, "no report"},
		"nothing":                          {``, "no report"},
		"a grave finding":                  {`{"verdict":"pass","findings":[{"severity":"CRITICAL"}]}`, "a finding is CRITICAL"},
		"a grave finding that lies deeper": {`{"verdict":"pass","a":{"b":[[{"Severity":"HIGH"}]]}}`, "a finding is HIGH"},
		"a pass that the agent wrote":      {"{\"verdict\":\"pass\"}\nand my own: fail", "something follows"},
	} {
		have := report.Audit([]byte(test.report))
		if (have == "") != (test.why == "") || !strings.Contains(have, test.why) {
			t.Errorf("%s: have %q, want %q", name, have, test.why)
		}
	}
}

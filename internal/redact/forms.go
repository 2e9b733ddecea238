package redact

// form is a kind of credential that is known by how it begins.
type form struct {
	// prefix in lower case, and exact as it is really written.
	prefix, exact string
	// of is what the rest is made of, and least how long it is.
	of    class
	least int
	// digits wants a digit in the rest: words are made of the same letters.
	digits bool
}

// forms are the issuers' published prefixes.
var forms = []form{
	{"akia", "AKIA", alnum, 16, false}, // AWS access key
	{"asia", "ASIA", alnum, 16, false},
	{"abia", "ABIA", alnum, 16, false},
	{"acca", "ACCA", alnum, 16, false},
	{"aiza", "AIza", dashed, 30, false},   // Google API key
	{"ya29.", "ya29.", dashed, 20, false}, // Google OAuth
	{"gocspx-", "GOCSPX-", dashed, 20, false},
	{"ghp_", "ghp_", alnum, 30, false}, // GitHub
	{"gho_", "gho_", alnum, 30, false},
	{"ghu_", "ghu_", alnum, 30, false},
	{"ghs_", "ghs_", alnum, 30, false},
	{"ghr_", "ghr_", alnum, 30, false},
	{"github_pat_", "github_pat_", word, 22, false},
	{"glpat-", "glpat-", dashed, 20, false}, // GitLab
	{"gldt-", "gldt-", dashed, 20, false},
	{"glrt-", "glrt-", dashed, 20, false},
	{"glptt-", "glptt-", dashed, 20, false},
	{"glcbt-", "glcbt-", dashed, 20, false},
	{"xoxb-", "xoxb-", dashed, 16, true}, // Slack
	{"xoxp-", "xoxp-", dashed, 16, true},
	{"xoxa-", "xoxa-", dashed, 16, true},
	{"xoxr-", "xoxr-", dashed, 16, true},
	{"xoxs-", "xoxs-", dashed, 16, true},
	{"xoxe.", "xoxe.", dotted, 16, true},
	{"xapp-", "xapp-", dashed, 16, true},
	{"hooks.slack.com/services/", "hooks.slack.com/services/", base64ed, 16, true},
	{"sk_live_", "sk_live_", alnum, 16, false}, // Stripe
	{"rk_live_", "rk_live_", alnum, 16, false},
	{"sk_test_", "sk_test_", alnum, 16, false},
	{"rk_test_", "rk_test_", alnum, 16, false},
	{"whsec_", "whsec_", base64ed, 24, false},
	{"sk-ant-", "sk-ant-", dashed, 20, false},   // Anthropic
	{"sk-proj-", "sk-proj-", dashed, 20, false}, // OpenAI
	{"sk-svcacct-", "sk-svcacct-", dashed, 20, false},
	{"sk-admin-", "sk-admin-", dashed, 20, false},
	{"sk-or-v1-", "sk-or-v1-", alnum, 32, false},
	{"sk-", "sk-", alnum, 32, false},
	{"sk-", "sk-", alnum, 20, true},
	{"gsk_", "gsk_", alnum, 32, false}, // Groq
	{"xai-", "xai-", alnum, 40, false},
	{"pplx-", "pplx-", alnum, 32, false},
	{"nvapi-", "nvapi-", dashed, 32, false},
	{"hf_", "hf_", alnum, 30, false}, // Hugging Face
	{"r8_", "r8_", alnum, 30, false},
	{"npm_", "npm_", alnum, 30, false},
	{"pypi-", "pypi-", dashed, 50, false},
	{"rubygems_", "rubygems_", hexed, 40, false},
	{"dckr_pat_", "dckr_pat_", dashed, 20, false},
	{"dop_v1_", "dop_v1_", hexed, 60, false}, // DigitalOcean
	{"doo_v1_", "doo_v1_", hexed, 60, false},
	{"shpat_", "shpat_", hexed, 30, false}, // Shopify
	{"shpss_", "shpss_", hexed, 30, false},
	{"sg.", "SG.", dotted, 50, false},   // SendGrid
	{"hvs.", "hvs.", dashed, 24, false}, // Vault
	{"glsa_", "glsa_", word, 36, false}, // Grafana
	{"lin_api_", "lin_api_", alnum, 36, false},
	{"ntn_", "ntn_", alnum, 40, false},
	{"figd_", "figd_", dashed, 36, false},
	{"pmak-", "PMAK-", dashed, 50, false},
	{"tskey-", "tskey-", dashed, 20, true},
	{"sq0atp-", "sq0atp-", dashed, 20, false},
	{"sq0csp-", "sq0csp-", dashed, 40, false},
	{"atatt3x", "ATATT3x", base64ed, 60, false}, // Atlassian
	{"dapi", "dapi", hexed, 32, true},           // Databricks
	{"age-secret-key-1", "AGE-SECRET-KEY-1", alnum, 50, false},
	{"eyj", "eyJ", dashed, 7, false}, // JSON Web Token
}

// check looks at what follows a prefix.
func (f form) check(h *hunt, start, end int) (span, bool) {
	if !h.starts(start) || h.text[start:end] != f.exact {
		return span{}, false
	}
	stop := h.run(f.of, end)
	if stop-end < f.least || f.digits && !mixOf(h.text[end:stop]).digit {
		return span{}, false
	}
	if f.exact == "eyJ" {
		return h.jwt(start, stop)
	}
	return span{start, stop}, true
}

// jwt wants a second part that is JSON too, and takes whatever parts follow.
func (h *hunt) jwt(start, stop int) (span, bool) {
	parts := 1
	for parts < 5 && h.byteAt(stop) == '.' && (parts > 1 || hasPrefixFold(h.text[stop+1:], "eyj") || h.byteAt(stop+1) == '.') {
		stop = h.run(dashed, stop+1)
		parts++
	}
	if parts < 2 {
		return span{}, false
	}
	return span{start, stop}, true
}

package provenance_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// K-25: labels are set by the host, never by content.
func TestATrustedResultMakesNoTrustedValueOfWhatTheAgentSaid(t *testing.T) {
	for name, c := range map[string]struct{ arguments, result, value string }{
		"as it is":              {`{"to":"evil@example.org"}`, `{"to":"evil@example.org"}`, "evil@example.org"},
		"in a sentence":         {`{"to":"evil@example.org"}`, `"Created for evil@example.org."`, "evil@example.org"},
		"in capitals":           {`{"to":"evil@example.org"}`, `"Created for EVIL@example.org"`, "evil@example.org"},
		"escaped":               {`{"to":"evil@example.org"}`, `"Created for \u0065vil@example.org"`, "evil@example.org"},
		"a part of it":          {`{"text":"write to evil@example.org today"}`, `{"to":"evil@example.org"}`, "evil@example.org"},
		"a part, in a sentence": {`{"text":"Write to <evil@example.org>, today."}`, `"Will write to evil@example.org"`, "evil@example.org"},
		"among too many":        {`{"text":"` + strings.Repeat("a.b c.d ", 2000) + `evil@example.org"}`, `"Will write to evil@example.org"`, "evil@example.org"},
		"with its rest":         {`{"text":"corp.example"}`, `"bob@evil.org.corp.example"`, "bob@evil.org"},
		"a number":              {`{"amount":15000}`, `{"amount":15000}`, "15000"},
		"an amount, spelt out":  {`{"amount":15000}`, `"Transfer of $15,000.00 made"`, "15000"},
		"an account, grouped":   {`{"to":"DE89370400440532013000"}`, `"Transfer to DE89 3704 0044 0532 0130 00 made"`, "DE89370400440532013000"},
		"a URL, cleaned":        {`{"url":"https://evil.org/a/../b"}`, `"Fetched https://evil.org/b"`, "https://evil.org/b"},
		"the whole in a list":   {`{"to":["evil@example.org"]}`, `[["evil@example.org"]]`, "evil@example.org"},
	} {
		l := provenance.New()
		l.ObserveResult(trusted, []byte(c.arguments), []byte(c.result))
		if have := origin(t, l, c.value); have.Provenance.Label() != nacre.Untrusted {
			t.Errorf("%s: have %+v", name, have)
		}
	}
}

func TestATrustedResultKeepsWhatItAdds(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("find Bob"))
	l.ObserveResult(trusted, []byte(`{"query":"bob"}`), []byte(`[{"name":"Bob","email":"bob@example.com"}]`))
	l.ObserveResult(trusted, []byte(`{"email":"bob@example.com"}`), []byte(`{"email":"bob@example.com","phone":"+49 170 1234567"}`))
	for _, value := range []string{"bob@example.com", "+491701234567"} {
		if have := origin(t, l, value); have.Provenance != nacre.SeenTrusted {
			t.Errorf("%s: have %+v", value, have)
		}
	}
}

func TestWhatTheAgentStoredAndReadBackIsNotTrusted(t *testing.T) {
	l := provenance.New()
	l.ObserveResult(trusted, []byte(`{"text":"evil@example.org"}`), []byte(`{"id":"note-17"}`))
	l.ObserveResult(trusted, []byte(`{}`), []byte(`[{"id":"note-17","text":"evil@example.org"}]`))
	if have := origin(t, l, "evil@example.org"); have.Provenance != nacre.SeenUntrusted {
		t.Errorf("have %+v", have)
	}
	if have := origin(t, l, "note-17"); have.Provenance != nacre.SeenTrusted {
		t.Errorf("have %+v", have)
	}
	l.ObserveResult(untrusted, []byte(`{"text":"eve@example.org"}`), nil)
	l.ObserveResult(trusted, nil, []byte(`["eve@example.org"]`))
	if have := origin(t, l, "eve@example.org"); have.Provenance != nacre.SeenUntrusted {
		t.Errorf("have %+v", have)
	}
	l.ObserveResult(untrusted, nil, []byte("page@example.org"))
	if have := origin(t, l, "page@example.org"); have.Provenance != nacre.SeenUntrusted || !l.Tainted() {
		t.Errorf("have %+v", have)
	}
}

func TestAnEchoBehindManyTrustedWordsIsNotTrusted(t *testing.T) {
	l := provenance.New()
	l.Observe(operator, []byte("version a.b of "+strings.Repeat("a.b ", 2000)))
	l.ObserveResult(trusted, []byte(`{"text":"`+strings.Repeat("a.b ", 2000)+`evil@example.org"}`), []byte(`"sent to evil@example.org."`))
	if have := origin(t, l, "evil@example.org"); have.Provenance.Label() != nacre.Untrusted {
		t.Errorf("have %+v", have)
	}
}

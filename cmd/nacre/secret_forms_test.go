package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretForms are what a secret is looked for as: as it is, and as programs write down what they
// were given. Of base64 it is what the secret becomes wherever it begins in a longer text.
func secretForms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret) // a string can be written
	forms := map[string]string{
		"as it is":                 secret,
		"in hexadecimal digits":    hex.EncodeToString([]byte(secret)),
		"in capital digits":        strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"escaped for a query":      url.QueryEscape(secret),
		"escaped for a path":       url.PathEscape(secret),
		"escaped for JSON":         strings.Trim(string(quoted), `"`),
		"escaped for JSON's slash": strings.ReplaceAll(secret, "/", `\/`),
	}
	for name, coding := range map[string]*base64.Encoding{"in base64": base64.RawStdEncoding, "in base64 of URLs": base64.RawURLEncoding} {
		for before := range 3 {
			text := coding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			first, last := (before*8+5)/6, (before+len(secret))*8/6 // what neighbours share is left out
			forms[name+", "+string(rune('0'+before))+" bytes in"] = text[first:last]
		}
	}
	return forms
}

// shortestHalf is how long the half of a secret is that is not met by chance.
const shortestHalf = 8

// holdsSecret says in which form a text holds a secret, whole or in two halves that stand apart;
// it is empty where the text holds none.
func holdsSecret(text []byte, secret string) string {
	for how, form := range secretForms(secret) {
		if bytes.Contains(text, []byte(form)) {
			return how
		}
	}
	half := len(secret) / 2
	if half >= shortestHalf && bytes.Contains(text, []byte(secret[:half])) && bytes.Contains(text, []byte(secret[half:])) {
		return "in two halves"
	}
	return ""
}

// hasNoSecret looks for a secret in the names and texts of all files below a folder.
func hasNoSecret(t *testing.T, dir, secret string) {
	t.Helper()
	looked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if how := holdsSecret([]byte(path), secret); how != "" {
			t.Errorf("the name %s holds the secret %s", path, how)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if how := holdsSecret(data, secret); how != "" {
			t.Errorf("%s holds the secret %s", path, how)
		}
		looked++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked == 0 {
		t.Errorf("there is no file below %s, so that nothing was looked at", dir)
	}
}

// hasNoSecret wants that nothing that a command said holds one of the secrets.
func (r result) hasNoSecret(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if how := holdsSecret([]byte(r.stdout+r.stderr), secret); how != "" {
			t.Errorf("what was said holds %.12s… %s", secret, how)
		}
	}
}

// M-33: the search that other tests make finds a secret however it was written down, and
// nothing where there is none.
func TestTheSearchForSecretsFindsThem(t *testing.T) {
	t.Parallel()
	const secret = "Zq8/quiet+harbour\"&<=>"
	for _, before := range []string{"", "a", "ab", "ada:"} {
		for how, text := range map[string]string{
			"plain": secret, "hex": hex.EncodeToString([]byte(before + secret)), "base64": base64.StdEncoding.EncodeToString([]byte(before + secret + "z")),
			"base64 of URLs": base64.URLEncoding.EncodeToString([]byte(before + secret)), "a query": url.Values{"q": {before + secret}}.Encode(),
			"JSON": func() string { text, _ := json.Marshal(before + secret); return string(text) }(), "halves": secret[:11] + " … " + secret[11:],
		} {
			if holdsSecret([]byte("before "+text+" after"), secret) == "" {
				t.Errorf("%s after %q: %s is not found", how, before, text)
			}
		}
	}
	if how := holdsSecret([]byte(strings.Repeat("quiet harbour Zq8 ", 100)), secret); how != "" {
		t.Errorf("found %s where there is none", how)
	}
}

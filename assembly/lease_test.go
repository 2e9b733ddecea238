package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

const credential = "[[credential]]\nname = \"hub\"\nhost = \"api.hub.example\"\npaths = [\"/\"]\ngroups = [\"main\"]\nstanding_secret = true\nvalue_env = \"HUB\"\n"

// M-32: what is not complete, or holds a secret, is refused, and the secret is not repeated.
func TestCredentialsInTheConfig(t *testing.T) {
	const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	edit := func(from, to string) string { return strings.Replace(credential, from, to, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"complete":               {credential, ""},
		"with all of sigv4":      {edit("value_env", "scheme = \"sigv4\"\nregion = \"eu-1\"\nservice = \"s3\"\naccess_key_env = \"ID\"\nvalue_env"), ""},
		"inside":                 {"[[credential]]\nname = \"hub\"\ngroups = [\"main\"]\nstanding_secret = true\nvalue_env = \"HUB\"\ndelivery = \"inside\"\nas_env = \"HUB\"\n", ""},
		"twice":                  {credential + credential, "twice"},
		"not said to stand":      {edit("standing_secret = true\n", ""), "standing_secret = true"},
		"no groups":              {edit("groups = [\"main\"]\n", ""), "groups"},
		"no place of the value":  {edit("value_env = \"HUB\"\n", ""), "value_keyring, value_age or value_credential"},
		"in the key store":       {edit("value_env = \"HUB\"", "value_keyring = \"hub\""), ""},
		"in an age file":         {edit("value_env = \"HUB\"", "value_age = \"/a\"\nvalue_age_identity = \"/b\""), ""},
		"of systemd":             {edit("value_env = \"HUB\"", "value_credential = \"hub\""), ""},
		"two stores":             {credential + "value_keyring = \"hub\"\n", "one place"},
		"the value as an entry":  {edit("value_env = \"HUB\"", "value_keyring = \""+token+"\""), "looks like a value"},
		"two places":             {credential + "value_file = \"/x\"\n", "one place"},
		"the value itself":       {credential + "value = \"" + token + "\"\n", "the value itself does not belong"},
		"the value as token":     {credential + "token = \"" + token + "\"\n", "the value itself does not belong"},
		"the value as its place": {edit("\"HUB\"", "\""+token+"\""), "looks like a value"},
		"the value as a scheme":  {credential + "scheme = \"Bearer " + token + "\"\n", "scheme is"},
		"the value in a header":  {credential + "header = \"Authorization: Bearer " + token + "\"\n", "header is"},
		"the value as a name":    {edit("\"hub\"", "\""+token+"\""), "name is"},
		"the value as a host":    {edit("\"api.hub.example\"", "\""+token+"@x\""), "host is"},
		"a wildcard":             {edit("api.hub", "*.hub"), "host is"},
		"an address":             {edit("api.hub.example", "10.0.0.1"), "host is"},
		"no paths":               {edit("paths = [\"/\"]\n", ""), "paths"},
		"paths with dots":        {edit("\"/\"", "\"/a/..\""), "paths"},
		"a long time":            {credential + "ttl = \"2h\"\n", "ttl"},
		"a relative ca_file":     {credential + "ca_file = \"x.pem\"\n", "ca_file"},
		"sigv4 without its id":   {edit("value_env", "scheme = \"sigv4\"\nregion = \"eu-1\"\nservice = \"s3\"\nvalue_env"), "access_key"},
		"inside, with a host":    {credential + "delivery = \"inside\"\nas_env = \"HUB\"\n", "bound to no host"},
		"inside, as LD_PRELOAD":  {"[[credential]]\nname = \"hub\"\ngroups = [\"main\"]\nstanding_secret = true\nvalue_env = \"HUB\"\ndelivery = \"inside\"\nas_env = \"LD_PRELOAD\"\n", "as_env"},
		"inside, as a path":      {"[[credential]]\nname = \"hub\"\ngroups = [\"main\"]\nstanding_secret = true\nvalue_env = \"HUB\"\ndelivery = \"inside\"\nas_file = \"../x\"\n", "as_file"},
		"another delivery":       {credential + "delivery = \"mail\"\n", "delivery is"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := assembly.LoadConfig(dir)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), token):
			t.Errorf("%s: the error repeats it: %v", name, err)
		}
	}
}

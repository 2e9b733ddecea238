package toolchain_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/toolchain"
)

// U-05: what the user has set of where packages come from holds inside, from files and from variables, and nothing else
// of those files is there.
func TestWhatTheUserHasSetOfPackagesIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		env        map[string]string
		shown      string
		want       string
	}{
		"pip's index by http, with its host": {
			file: ".config/pip/pip.conf", text: "[global]\nindex-url = http://u:p@pip.example:8080/simple\ntrusted-host = pip.example:8080\n  [::1]:80\n  a b/c\nproxy = http://secret\n",
			shown: "pip.conf", want: "[global]\nindex-url = http://pip.example:8080/simple\ntrusted-host = pip.example:8080\n  [::1]:80\n  a\n",
		},
		"pip's host by a variable": {
			file: ".config/pip/pip.conf", text: "[list]\nformat = json\n", env: map[string]string{"PIP_TRUSTED_HOST": "pip.example"}, shown: "pip.conf", want: "[global]\ntrusted-host = pip.example\n",
		},
		"npm's registry by a variable in capitals": {
			env: map[string]string{"NPM_CONFIG_REGISTRY": "https://u:p@npm.example/"}, shown: "npmrc", want: "registry=https://npm.example/\n",
		},
		"npm's authority that is not there": {
			file: ".npmrc", text: "registry=https://npm.example/\ncafile=company.pem\n//npm.example/:_authToken=secret\n", shown: "npmrc", want: "registry=https://npm.example/\n",
		},
		"cargo's authority that is not there": {
			file: ".cargo/config.toml", text: "[http]\ncainfo = \"/nowhere.pem\"\nproxy = \"secret\"\n[registry]\ndefault = \"own\"\n", shown: "cargo.toml", want: "[registry]\n  default = \"own\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, dir := t.TempDir(), t.TempDir()
			if c.file != "" {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(home, c.file)), 0o700), os.WriteFile(filepath.Join(home, c.file), []byte(c.text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := toolchain.ShowSettings(dir, func(name string) string {
				switch name {
				case "HOME":
					return home
				case "npm_config_globalconfig":
					return filepath.Join(home, "none")
				}
				return c.env[name]
			})
			text, missing := os.ReadFile(filepath.Join(dir, c.shown))
			if err = errors.Join(err, missing); err != nil {
				t.Fatal(err)
			}
			if have := string(text); strings.TrimSpace(have) != strings.TrimSpace(c.want) {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}

// U-05: of a file of authorities a sandbox is shown the certificates, and nothing else that stands there.
func TestNothingButCertificatesIsShownOfAFileOfAuthorities(t *testing.T) {
	block := func(kind, text string) string {
		return fmt.Sprintf("-----BEGIN %s-----\n%s\n-----END %s-----\n", kind, text, kind)
	}
	first, second := block("CERTIFICATE", "Zmlyc3Q="), block("CERTIFICATE", "c2Vjb25k\r\nYWdhaW4=")
	text := "# a company's\n" + block("PRIVATE KEY", "a2V5") + first + "-----BEGIN CERTIFICATE-----\npassword: hunter2\n" +
		"-----BEGIN CERTIFICATE-----\nabc\n" + second + block("EC PRIVATE KEY", "a2V5") + "-----BEGIN CERTIFICATE-----\nabc"
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "ca.pem"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := toolchain.ShowSettings(dir, func(name string) string {
		return map[string]string{"HOME": home, "NODE_EXTRA_CA_CERTS": "~/ca.pem", "npm_config_globalconfig": filepath.Join(home, "none")}[name]
	})
	shown, missing := os.ReadFile(filepath.Join(dir, "node.pem"))
	if err = errors.Join(err, missing); err != nil || string(shown) != first+second {
		t.Errorf("%v, shown:\n%s", err, shown)
	}
}

package sign_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/sign"
)

// U-04: the key is the one that git would sign with. The repository may say whose and which it is,
// and never which program signs. What is missing is a sentence that says what to set.
func TestTheKeyIsThePersons(t *testing.T) {
	t.Parallel()
	setting := func(line string) repo.Setting {
		key, value, _ := strings.Cut(line, "=")
		key, own := strings.CutPrefix(key, "own ")
		return repo.Setting{Key: key, Value: value, Own: own}
	}
	for name, c := range map[string]struct {
		settings                 []string
		text, program, failsWith string
	}{
		"of gpg, by name":                      {settings: []string{"user.name=Ann", "user.email=a@b"}, text: "Ann <a@b>, openpgp", program: "gpg"},
		"of gpg, by its id":                    {settings: []string{"user.name=Ann", "user.email=a@b", "user.signingkey=AB12"}, text: "Ann <a@b>, openpgp key AB12", program: "gpg"},
		"of ssh":                               {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.format=ssh", "user.signingkey=/k"}, text: "Ann <a@b>, ssh key /k", program: "ssh-keygen"},
		"a program of the person's":            {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.program=/my/gpg"}, text: "Ann <a@b>, openpgp", program: "/my/gpg"},
		"a program of the repository's":        {settings: []string{"user.name=Ann", "user.email=a@b", "own gpg.program=/evil"}, text: "Ann <a@b>, openpgp", program: "gpg"},
		"a name of the repository's own":       {settings: []string{"own user.name=Work", "user.name=Ann", "user.email=a@b"}, text: "Work <a@b>, openpgp", program: "gpg"},
		"certificates":                         {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.format=x509"}, text: "Ann <a@b>, x509", program: "gpgsm"},
		"nobody":                               {settings: []string{"user.name=Ann"}, failsWith: "set user.name and user.email"},
		"ssh without a key":                    {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.format=ssh"}, failsWith: "set user.signingkey"},
		"a format that git does not have":      {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.format=pgp5"}, failsWith: "write openpgp, ssh or x509"},
		"another program than the format's is": {settings: []string{"user.name=Ann", "user.email=a@b", "gpg.ssh.program=/my/ssh"}, text: "Ann <a@b>, openpgp", program: "gpg"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var settings []repo.Setting
			for _, line := range c.settings {
				settings = append(settings, setting(line))
			}
			key, err := sign.KeyOf(settings)
			switch {
			case c.failsWith != "":
				if err == nil || !strings.Contains(err.Error(), c.failsWith) {
					t.Errorf("the error is %v, want %q", err, c.failsWith)
				}
			case err != nil || key.String() != c.text || key.Program != c.program:
				t.Errorf("the key is %s by %s, %v", key, key.Program, err)
			}
		})
	}
}

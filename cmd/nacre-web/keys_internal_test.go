package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/person"
)

// M-46: whoever signed in with the code and changes the configuration adds a passkey. It is whoever's the
// configuration says now, and shows the page to whoever may see all groups. Whose it is may remove it, and
// one that was copied is refused for good, which is recorded.
func TestAPasskeyIsAPersonsWhileTheConfigurationSaysSo(t *testing.T) {
	t.Parallel()
	o := place(t)
	rt, err := assembly.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	config := func(text string) {
		t.Helper()
		path := filepath.Join(o.Getenv("HOME"), ".config/nacre/config.toml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	me := fmt.Sprintf("web:%d", os.Geteuid())
	key := func(n int) passkey.Key {
		return passkey.Key{ID: fmt.Appendf(nil, "id-%d", n), PublicKey: []byte("key"), Site: "localhost", Name: "phone"}
	}
	id := func(n int) string { return string(key(n).Identity()) }
	add := func(by, owner string, n int) error {
		return assembly.AddPasskey(t.Context(), assembly.As(rt, by), owner, key(n))
	}
	want := func(have error, want string) {
		t.Helper()
		if (have == nil) != (want == "") || have != nil && !strings.Contains(have.Error(), want) {
			t.Errorf("have %v, want %s", have, want)
		}
	}
	signsIn := func(n int, wanted string) {
		t.Helper()
		_, err := assembly.SignsIn(rt, id(n))
		want(err, wanted)
	}
	want(add("web:4242", "owner", 1), person.ErrStranger.Error())
	want(add(me, "ada", 1), "not an operator")
	want(add(me, "owner", 1), "")
	signsIn(1, "")
	want(add(id(1), "owner", 2), person.ErrFace.Error())

	who := "[operators.ada]\nidentities = [%q]\nconfig = true\n[operators.bob]\ngroups = [\"family\"]\nstop = true\nidentities = [\"web:4242\"]\n"
	config(fmt.Sprintf(who, me))
	signsIn(1, person.ErrStranger.Error()) // whoever owns the installation is nobody where persons are configured
	want(add(me, "owner", 2), "not an operator")
	want(add("web:4242", "bob", 2), person.ErrRight.Error())
	want(add(me, "bob", 2), "")
	signsIn(2, "shows those of all groups")
	want(add(me, "ada", 3), "")
	signsIn(3, "")
	want(assembly.Unpair(t.Context(), assembly.As(rt, "web:4242"), id(3)), person.ErrRight.Error())
	want(assembly.Unpair(t.Context(), assembly.As(rt, "web:4242"), id(2)), "")
	signsIn(2, passkey.ErrUnknown.Error())
	want(assembly.UsePasskey(t.Context(), rt, id(3), 7), "")
	want(assembly.UsePasskey(t.Context(), rt, id(3), 7), passkey.ErrCopied.Error())
	signsIn(3, passkey.ErrCopied.Error())
	want(add(me, "ada", 4), "")
	config(strings.ReplaceAll(fmt.Sprintf(who, me), "operators.ada", "operators.carol"))
	signsIn(4, person.ErrStranger.Error()) // ada is no operator any more
	config(strings.NewReplacer("operators.ada", "operators.carol", "web:4242", "web:4242\", \""+id(4)).Replace(fmt.Sprintf(who, me)))
	signsIn(4, "shows those of all groups") // as config.toml says: ada, who was paired with it, is there no more
	recorded := ""
	paths, _ := filepath.Glob(filepath.Join(rt.AuditRoot(), "press-*", "*.jsonl")) // the pattern is ours
	for _, path := range paths {
		data, _ := os.ReadFile(path) // it was found
		recorded += string(data)
	}
	for _, kind := range []string{"operator.pair", "operator.unpair", "operator.copied"} {
		if !strings.Contains(recorded, `"`+kind+`"`) {
			t.Errorf("%s is not recorded", kind)
		}
	}
}

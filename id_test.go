package nacre_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
)

func TestIDsHaveOneForm(t *testing.T) {
	parsers := map[string]func(string) error{
		"group":       func(s string) error { _, err := nacre.ParseGroup(s); return err },
		"session":     func(s string) error { _, err := nacre.ParseSessionID(s); return err },
		"plugin":      func(s string) error { _, err := nacre.ParsePluginName(s); return err },
		"tool":        func(s string) error { _, err := nacre.ParseToolName(s); return err },
		"capability":  func(s string) error { _, err := nacre.ParseCapabilityID(s); return err },
		"correlation": func(s string) error { _, err := nacre.ParseCorrelation(s); return err },
	}
	long := strings.Repeat("a", 200)
	for _, c := range []struct{ id, takes string }{
		{"main", "group session plugin tool correlation"},
		{"Family_Chat-1", "group correlation"},
		{"k3f9-a", "group session plugin correlation"},
		{"-k", "group correlation"},
		{"reminders.create_reminder", "capability correlation"},
		{"a.b.c.d.e.f.g.h", "capability correlation"},
		{"a.b.c.d.e.f.g.h.i", "correlation"},
		{"9lives", "group session plugin correlation"},
		{"a..b", "correlation"}, {".", "correlation"}, {"../etc", "correlation"}, {"a/b", "correlation"},
		{"", ""}, {"a b", ""}, {"a\nb", ""}, {"ä", ""}, {"a\x00", ""}, {long, ""},
	} {
		for kind, parse := range parsers {
			want := strings.Contains(" "+c.takes+" ", " "+kind+" ")
			if have := parse(c.id) == nil; have != want {
				t.Errorf("%s %.20q: taken %v, want %v", kind, c.id, have, want)
			}
		}
	}
}

func TestTheZeroValueIsTheStrictest(t *testing.T) {
	var v nacre.Verdict
	var c nacre.SafetyClass
	var s nacre.Sensitivity
	var l nacre.Label
	var m nacre.MountKind
	if v != nacre.Deny || c != nacre.Destructive || s != nacre.SensitiveSecrets || l != nacre.Untrusted || m != nacre.BindReadOnly {
		t.Fatal(v, c, s, l, m)
	}
	if nacre.Allow.And(nacre.Ask) != nacre.Ask || nacre.Trusted.And(nacre.Untrusted) != nacre.Untrusted {
		t.Fatal("combining does not keep the stricter")
	}
	if err := v.UnmarshalText([]byte("Allow")); err == nil {
		t.Fatal("another spelling was taken")
	}
}

func TestASecretIsNotPrinted(t *testing.T) {
	secret := nacre.NewSecret("hunter2")
	text, err := json.Marshal(map[string]any{"key": secret})
	if err != nil {
		t.Fatal(err)
	}
	printed := fmt.Sprintf("%v %+v %#v %s %q %s", secret, secret, secret, secret, secret, text)
	if strings.Contains(printed, "hunter2") {
		t.Fatal(printed)
	}
}

// F-26: no two sessions share a key, whatever they and their groups are called,
// and what is no key of both is complete in no spelling.
func TestASessionKeyIsOfOneGroupAndSession(t *testing.T) {
	names := []string{"a", "1", "a/b", "b/a", "1:a", "a/", "/a", ":", "/", "1:a/s"}
	of := map[nacre.SessionKey]string{}
	for _, group := range names {
		for _, session := range names {
			key := nacre.KeyOf(nacre.Group(group), nacre.SessionID(session))
			if other, there := of[key]; there {
				t.Errorf("%q is the key of %s and of %q in %q", key, other, session, group)
			}
			of[key] = session + " in " + group
			if !key.Complete() {
				t.Errorf("%q is not complete", key)
			}
		}
	}
	for _, key := range []nacre.SessionKey{"", "s1", "a/s1", "0:/s1", "1:a", "1:a/", "1:ab/s", "01:a/s", "-1:a/s", "9:a/s", nacre.KeyOf("", "s"), nacre.KeyOf("g", "")} {
		if key.Complete() {
			t.Errorf("%q is complete", key)
		}
	}
}

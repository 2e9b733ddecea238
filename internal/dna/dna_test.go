package dna_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/dna"
)

func task(body string, whitelist, denylist []string) atom.Task {
	return atom.Task{Parameters: atom.Parameters{Role: "edit-local", Whitelist: whitelist, Denylist: denylist}, Body: body}
}

func named(ids ...atom.ID) []atom.Atom {
	var list []atom.Atom
	for _, id := range ids {
		list = append(list, atom.Atom{ID: id})
	}
	return list
}

// S-16: composed, rendered, and read back as the same.
func TestRoundTrip(t *testing.T) {
	d := dna.Compose(task("do x\n", nil, nil), named("policy::no-git-ops", "team::no-svn", "tools::bash-allowlist"), [4]byte{0xde, 0xad, 0xbe, 0xef})
	if have := d.String(); have != "edit-local::NG-??-BA::374708FF::2E318EFD-deadbeef" {
		t.Errorf("have %s", have)
	}
	again, err := dna.Parse(d.String())
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("%+v, %v", again, err)
	}
	if have := dna.Compose(task("", nil, nil), nil, [4]byte{}).String(); !strings.HasPrefix(have, "edit-local::00::") || !strings.HasSuffix(have, "::E3B0C442-00000000") {
		t.Errorf("have %s", have)
	}
}

// S-16: scopes that differ have other digests; the order of a list is none of
// its meaning.
func TestScope(t *testing.T) {
	scope := func(whitelist, denylist []string) string {
		return dna.Compose(task("", whitelist, denylist), nil, [4]byte{}).Scope
	}
	if scope([]string{"b/**", "a/**"}, nil) != scope([]string{"a/**", "b/**"}, []string{}) {
		t.Error("order counts")
	}
	seen := map[string]string{}
	for name, s := range map[string]string{
		"none": scope(nil, nil), "a,b": scope([]string{"a,b"}, nil), "a and b": scope([]string{"a", "b"}, nil), "b denied": scope([]string{"a"}, []string{"b"}),
		"both denied": scope(nil, []string{"a", "b"}), "ab": scope([]string{"ab"}, nil), "ab and nothing": scope([]string{"ab", ""}, nil), "lines": scope([]string{"a\nb"}, nil),
	} {
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s share %s", name, other, s)
		}
		seen[s] = name
	}
}

// S-16: what is not exactly a DNA is none.
func TestBadDNA(t *testing.T) {
	for _, s := range []string{
		"", "r::C::12345678", "::C::12345678::ABCDEF01-deadbeef", "r::::12345678::ABCDEF01-deadbeef", "r::C::1234567::ABCDEF01-deadbeef",
		"r::C::1234567Z::ABCDEF01-deadbeef", "r::C::12345678::ABCDEF01deadbeef", "r::C::12345678::ABCDEF01-deadbeef\n", " r::C::12345678::ABCDEF01-deadbeef",
		"r::C::12345678::ABCDEF01-DEADBEEF", "r::C::12345678::abcdef01-deadbeef", "R::C::12345678::ABCDEF01-deadbeef", "r::C-::12345678::ABCDEF01-deadbeef",
		"r::C::12345678::ABCDEF01-deadbeef0", "r::C::12345678::ABCDEF01-deadbeef::x", "../r::C::12345678::ABCDEF01-deadbeef", "r::?::12345678::ABCDEF01-deadbeef",
		"r::C::A7B2::C9F1-xa7c", "r::" + strings.Repeat("C-", 40_000) + "C::12345678::ABCDEF01-deadbeef",
	} {
		if d, err := dna.Parse(s); err == nil {
			t.Errorf("%q is read as %+v", s, d)
		}
	}
}

// S-16: the seed's examples are read by the lenient reader, and given back.
func TestLenient(t *testing.T) {
	for _, s := range []string{"r::C::A7B2::C9F1-xa7c", "edit-local::NG-FW-FD-CP-CG-TG-ND-RF::A7B2::C9F1-xa7c", "r::C::12345678::ABCDEF01-deadbeef", "r::NG-??::A7B2::C9F1-xa7c"} {
		if d, err := dna.ParseLenient(s); err != nil || d.String() != s {
			t.Errorf("%q: %+v, %v", s, d, err)
		}
	}
	for _, s := range []string{"", "r::C::A7B::C9F1-xa7c", "r::C::A7B2::C9F1", "r::::A7B2::C9F1-xa7c", "r::C::A7B2::C9F1-xa 7c"} {
		if d, err := dna.ParseLenient(s); err == nil {
			t.Errorf("%q is read as %+v", s, d)
		}
	}
}

// S-16: every atom that ships has a code of its own.
func TestCodes(t *testing.T) {
	list, err := atom.Library{}.All()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]atom.ID{"00": "none", "??": "unknown"}
	for _, a := range list {
		code := dna.CodeOf(a.ID)
		if other, ok := seen[code]; ok || len(code) != 2 {
			t.Errorf("%s and %s share %q", a.ID, other, code)
		}
		seen[code] = a.ID
	}
	for id, want := range map[atom.ID]string{
		"policy::no-git-ops": "NG", "scope::files-whitelist": "FW", "scope::files-denylist": "FD", "quality::constructor-pattern": "CP", "quality::cargo-check-green": "CG",
		"quality::tests-green": "TG", "safety::no-dep-bump": "ND", "output::report-format": "RF", "output::severity-grade": "SG", "tools::deny-tools": "DT", "tools::bash-allowlist": "BA",
	} {
		if have := dna.CodeOf(id); have != want {
			t.Errorf("%s: have %s, want %s", id, have, want)
		}
	}
}

// S-16: whatever the task, its DNA is read back as it was.
func TestEveryTaskHasDNA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.String())
		spec := task(rapid.String().Draw(t, "body"), texts.Draw(t, "whitelist"), texts.Draw(t, "denylist"))
		spec.Role = rapid.StringMatching(`[a-z][a-z0-9-]{0,63}`).Draw(t, "role")
		ids := rapid.SliceOfN(rapid.SampledFrom([]atom.ID{"policy::no-git-ops", "x::y", "tools::deny-tools"}), 0, 40).Draw(t, "atoms")
		d := dna.Compose(spec, named(ids...), [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "nonce")))
		if again, err := dna.Parse(d.String()); err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%s: %v", d, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	corpus.Add(f, "edit-local::NG-??-BA::374708FF::2E318EFD-deadbeef")
	corpus.Add(f, "r::C::A7B2::C9F1-xa7c")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := dna.ParseLenient(s); err == nil && d.String() != s {
			t.Errorf("%q is given back as %q", s, d)
		}
		if d, err := dna.Parse(s); err == nil && d.String() != s {
			t.Errorf("%q is given back as %q", s, d)
		}
	})
}

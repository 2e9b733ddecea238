package main_test

import "testing"

// M-61, U-32: a config is checked as each start of nacre does, with the line of what means
// nothing and the nearest key; a file that was named is there.
func TestAConfigIsChecked(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("config", "check").want(t, 0, "config.toml: the defaults hold")
	i.config("ask_seconds = 10\n[egress]\nalow = [\"a.example.com\"]\n")
	i.nacre("config", "check").want(t, 2, "line 3: unknown key \"egress.alow\"; did you mean \"allow\"?")
	i.config("[egress]\nallow = [\"*.example.com\"]\n")
	i.nacre("config", "check", "--json").want(t, 2, `"ok":false`, "wildcards are refused")
	i.nacre("config", "check", "nowhere.toml").want(t, 2, "nowhere.toml")
	i.nacre("config", "check", i.write("other.toml", "ask_seconds = 10\n")).want(t, 0, "other.toml can be used")
	i.config("")
	i.write("home/.config/nacre/learned.toml", "[[learned]]\nid = \"x\"\n")
	i.nacre("config", "check").want(t, 2, "learned.toml")
}

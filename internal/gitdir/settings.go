package gitdir

import (
	"net/url"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo"
)

// shown are the settings of the repository that hold inside as well: none of them
// names a program or a secret.
func shown() []string {
	return []string{
		"core.repositoryformatversion", "core.filemode", "core.symlinks", "core.ignorecase", "core.autocrlf", "core.eol", "core.safecrlf",
		"core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.quotepath", "core.abbrev", "index.sparse",
		"extensions.objectformat", "extensions.partialclone", "pull.rebase", "pull.ff", "merge.conflictstyle", "merge.ff", "rebase.autosquash",
		"rebase.autostash", "rerere.enabled", "diff.algorithm", "diff.renames", "commit.cleanup", "push.default", "init.defaultbranch",
	}
}

// shownOfNamed are those of each remote, each branch and each submodule.
func shownOfNamed() []string {
	return []string{"remote.url", "remote.fetch", "remote.promisor", "remote.partialclonefilter", "branch.remote", "branch.merge", "branch.rebase", "submodule.url", "submodule.active"}
}

// configText is the configuration of the agent's git directory. With narrow, it has a part
// of the work tree.
func configText(settings []repo.Setting, narrow bool) string {
	var b strings.Builder
	put := func(key, value string) { putSetting(&b, key, value) }
	put("core.repositoryformatversion", "0")
	put("core.logallrefupdates", "true")
	identity := map[string]string{}
	for _, s := range settings {
		switch {
		case s.Elsewhere: // no agent reads what another repository says
		case s.Key == "user.name", s.Key == "user.email":
			if _, own := identity[s.Key+" own"]; s.Own || !own {
				identity[s.Key] = s.Value
			}
			if s.Own {
				identity[s.Key+" own"] = s.Value
			}
		case s.Own && isShown(s.Key):
			put(s.Key, withoutCredentials(s.Key, s.Value))
		}
	}
	for _, key := range []string{"user.name", "user.email"} {
		if identity[key] != "" {
			put(key, identity[key])
		}
	}
	// The agent sees other owners and times of change than the host, and borrows objects.
	for _, fixed := range [][2]string{
		{"core.bare", "false"}, {"core.checkstat", "minimal"}, {"core.trustctime", "false"}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
	} {
		put(fixed[0], fixed[1])
	}
	if narrow {
		put("core.sparsecheckout", "true")
		put("core.sparsecheckoutcone", "false")
		put("index.sparse", "false")
	}
	return b.String()
}

// putSetting writes a setting as git reads it.
func putSetting(b *strings.Builder, key, value string) {
	section, rest, _ := strings.Cut(key, ".")
	name := ""
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
		name, rest = " "+quoted(rest[:dot]), rest[dot+1:]
	}
	b.WriteString("[" + section + name + "]\n\t" + rest + " = " + quoted(value) + "\n")
}

// signs tells whether the user's git signs each commit. What the repository has itself outranks
// what its user has for all of theirs.
func signs(settings []repo.Setting) (is bool) {
	own := false
	for _, s := range settings {
		if s.Key == "commit.gpgsign" && (s.Own || !own) {
			is, own = s.Value == "true", s.Own
		}
	}
	return is
}

func isShown(key string) bool {
	section, rest, _ := strings.Cut(key, ".")
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
		return slices.Contains(shownOfNamed(), section+"."+rest[dot+1:])
	}
	return slices.Contains(shown(), key)
}

// isReadable tells the settings that are seen where git can only be read: those that are shown, and what a git
// directory cannot be read without.
func isReadable(key string) bool {
	return isShown(key) || strings.HasPrefix(key, "submodule.") || slices.Contains([]string{
		"core.bare", "core.worktree", "core.logallrefupdates", "extensions.refstorage", "extensions.worktreeconfig", "user.name", "user.email",
	}, key)
}

// withoutCredentials takes the user's part out of the address of a remote. A branch may name its
// remote by an address, and an address may begin with the name of a helper (helper::https://…).
func withoutCredentials(key, value string) string {
	if !strings.HasSuffix(key, ".url") && !strings.HasSuffix(key, ".remote") || !strings.Contains(value, "://") {
		return value
	}
	if helper, rest, named := strings.Cut(value, "::"); named && !strings.Contains(helper, "/") {
		return helper + "::" + withoutCredentials(key, rest)
	}
	address, err := url.Parse(value)
	if err != nil || address.Opaque != "" {
		return ""
	}
	if address.Scheme == "ssh" && address.User != nil {
		address.User = url.User(address.User.Username())
		return address.String()
	}
	address.User = nil
	return address.String()
}

func quoted(value string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

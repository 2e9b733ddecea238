package main

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a path.
const (
	maxPath  = 1024 // bytes
	maxDepth = 64   // folders
)

// The reasons for which nothing is written to a place.
const (
	whyGit    = "git obeys it"
	whyEditor = "an editor runs what it says"
	whyAgent  = "a coding agent obeys it"
	whyShell  = "a shell or a debugger runs it on entering the folder"
	whyTool   = "a package tool runs what it says"
	whyNacre  = "nacre reads it"
)

// later says of names, lower-case, why nothing may be written to them or
// below them, at any depth: they make the host run code later.
func later(name string) string {
	switch name {
	case ".git", "git~1", ".gitmodules", ".gitattributes", ".gitconfig", ".githooks", ".husky", ".pre-commit-config.yaml",
		".lefthook.yml", "lefthook.yml", "lefthook.yaml", "lefthook.toml":
		return whyGit
	case "head", "commondir": // without them no folder is a bare repository, whose config git would obey
		return whyGit
	case ".vscode", ".idea", ".zed", ".vs", ".fleet", ".devcontainer", ".devcontainer.json", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua",
		".lvimrc", ".vim", ".nvim", ".dir-locals.el", ".dir-locals-2.el":
		return whyEditor
	case ".claude", ".codex", ".cursor", ".gemini", ".mcp.json", ".continue", ".windsurf", ".roo", ".kiro", ".opencode", ".agents",
		"opencode.json", ".aider.conf.yml", ".cursorrules", ".windsurfrules", ".clinerules":
		return whyAgent
	case ".envrc", ".direnv", "mise.toml", ".mise.toml", ".mise", ".autoenv.zsh", ".gdbinit", ".lldbinit":
		return whyShell
	case ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".yarn":
		return whyTool
	case ".nacre":
		return whyNacre
	}
	if strings.HasSuffix(name, ".code-workspace") {
		return whyEditor
	}
	return ""
}

// parsePath reads a path from the project's folder; "." is the folder itself.
func parsePath(s string) (string, error) {
	switch {
	case s == "" || len(s) > maxPath:
		return "", refuse("PATH", "A path has 1 to %d bytes", maxPath)
	case strings.HasPrefix(s, "/"):
		return "", refuse("PATH", "Name files by their path from the project's folder, such as src/main.go, without a / in front")
	case strings.ContainsRune(s, 0) || !utf8.ValidString(s):
		return "", refuse("PATH", "The path holds what no path holds")
	}
	parts := strings.Split(s, "/")
	if len(parts) > maxDepth {
		return "", refuse("PATH", "The path is deeper than %d folders", maxDepth)
	}
	for _, part := range parts {
		if part == ".." {
			return "", refuse("PATH", "A path must not hold ..: nothing outside of the project can be reached")
		}
	}
	return path.Clean(s), nil
}

// parseTarget reads the path of something that is written, moved or deleted.
func parseTarget(s string) (string, error) {
	name, err := parsePath(s)
	if err != nil {
		return "", err
	}
	if name == "." {
		return "", refuse("PATH", "Name a file, not the project's folder")
	}
	for _, part := range strings.Split(name, "/") {
		if err := checkPart(part); err != nil {
			return "", err
		}
	}
	return name, nil
}

func checkPart(part string) error {
	if strings.ContainsFunc(part, unsafeRune) {
		return refuse("PATH", "A name must not hold control characters or such as cannot be seen")
	}
	if strings.HasPrefix(part, "-") {
		return refuse("PATH", "A name must not begin with -: a shell's * would hand it to a program as an option")
	}
	if strings.HasSuffix(part, " ") || strings.HasSuffix(part, ".") {
		return refuse("PATH", "A name must not end in a space or a dot: some file systems take it for another one")
	}
	// NTFS reads name:stream as the file itself.
	name, _, _ := strings.Cut(strings.ToLower(part), ":")
	if why := later(name); why != "" {
		return refuse("PROTECTED", "%s is protected, since %s: ask the operator to change it", part, why)
	}
	return nil
}

func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Variation_Selector) || r == utf8.RuneError
}

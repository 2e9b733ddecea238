package planted

import (
	"path"
	"slices"
	"strings"
)

// maxMentions is how many paths of one file are looked at.
const maxMentions = 2000

// Callers are the files at a project's top that call others by their paths, and that
// somebody trusts already: direnv's file, what make reads, lists of hooks and of tasks.
func Callers() []string {
	return []string{
		".envrc", "GNUmakefile", "makefile", "Makefile", ".pre-commit-config.yaml", ".pre-commit-config.yml",
		"lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", tasks,
	}
}

// tasks is where an editor's tasks are.
const tasks = ".vscode/tasks.json"

// CallerFolders are folders of hooks, each of which calls others.
func CallerFolders() []string { return []string{".githooks", ".husky"} }

// Calls reports whether a path is of a file that calls others.
func Calls(name string) bool {
	return slices.Contains(Callers(), name) || slices.Contains(CallerFolders(), path.Dir(name))
}

// Mentions are the paths below the top that a caller names, from the top or from its own
// folder. What a shell puts in front, such as $PWD/ or ${ROOT}/, is taken for either.
func Mentions(caller, text string) []string {
	if strings.HasSuffix(strings.ToLower(path.Base(caller)), "makefile") {
		text = included(text)
	}
	var paths []string
	seen := map[string]bool{}
	words := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'`;|&()<>{}[],:=\\", c) })
	for _, word := range words {
		if strings.HasPrefix(word, "$") {
			_, word, _ = strings.Cut(word, "/")
		}
		word = strings.TrimLeft(word, "/")
		if word == "" || seen[word] {
			continue
		}
		seen[word] = true
		for _, at := range []string{path.Clean(word), path.Join(path.Dir(caller), word)} {
			if isBelow(at) && at != caller {
				paths = append(paths, at)
			}
		}
		if len(seen) == maxMentions {
			break
		}
	}
	return paths
}

// CalledUnasked are those that run when nobody chose them. What an editor's tasks call is not among
// them, unless some start with the folder. Nor is prose that a list names for another reason than
// to run it.
func CalledUnasked(caller, text string) []string {
	if caller == tasks && !strings.Contains(text, "folderOpen") || strings.HasSuffix(caller, ".sample") {
		return nil
	}
	isList := slices.Contains([]string{".yaml", ".yml"}, path.Ext(caller))
	return slices.DeleteFunc(Mentions(caller, text), func(at string) bool {
		return isList && slices.Contains([]string{".md", ".rst", ".txt", ".adoc"}, path.Ext(at))
	})
}

func isBelow(at string) bool {
	return at != "." && at != ".." && !strings.HasPrefix(at, "../") && at != ".git" && !strings.HasPrefix(at, ".git/")
}

// included are the lines of a Makefile that include others.
func included(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) > 0 && slices.Contains([]string{"include", "-include", "sinclude"}, words[0]) {
			kept.WriteString(strings.Join(words[1:], " ") + "\n")
		}
	}
	return kept.String()
}

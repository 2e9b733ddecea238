package brain

import (
	"path"
	"strings"
)

const (
	// SkillDir holds, inside, the skills of whoever has no place of its own for them.
	SkillDir = RoleDir + "/skills"
	// maxSummary is how much of a skill's description is told.
	maxSummary = 500
)

// briefing is what a program is told that has no place of its own for skills:
// the turn's instructions, and where its skills are.
func (t Turn) briefing() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(t.System))
	if len(t.Skills) == 0 {
		return b.String()
	}
	if b.Len() > 0 {
		b.WriteString("\n\n")
	}
	b.WriteString("These files say how to use something. Read one before you use what it is about:\n")
	for _, s := range t.Skills {
		b.WriteString("- " + s.path() + ": " + s.summary() + "\n")
	}
	return strings.TrimSpace(b.String())
}

func (s Skill) path() string { return path.Join(SkillDir, s.Name, "SKILL.md") }

// summary is the description in the front matter, or the name.
func (s Skill) summary() string {
	for line := range strings.Lines(s.Markdown) {
		if text, is := strings.CutPrefix(line, "description:"); is {
			return clip(strings.Trim(strings.TrimSpace(text), `"'`), maxSummary)
		}
	}
	return s.Name
}

// SkillFiles are skills as read-only files below [SkillDir].
func SkillFiles(skills []Skill) []File {
	var files []File
	for _, s := range skills {
		files = append(files, File{Path: s.path(), Data: []byte(s.Markdown), Mode: 0o444})
	}
	return files
}

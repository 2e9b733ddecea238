package task

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/repo"
)

// Unseen says what of a project the agent of a run does not see. A person is asked about obstacles before
// the run begins. unseen names the other files that git does not track, which are told and keep nothing
// from beginning. Most of those are notes and outputs. One that the task or a check names is what the run
// is about, so that an agent without it would be paid for nothing (U-20).
func (s Spec) Unseen(dirty repo.Dirty) (obstacles []string, unseen string) {
	if s.Dirty {
		return nil, ""
	}
	if !dirty.Clean() {
		obstacles = append(obstacles, "uncommitted changes in "+Named(dirty.Tracked)+
			": the agent does not see them, and where it changes these files too, the result lands on a branch of its own. Commit or stash them, or add --dirty")
	}
	text := strings.Join(append([]string{s.Task}, s.Checks...), "\n")
	var mentioned, others []string
	for _, name := range dirty.Untracked {
		if mentions(text, name) {
			mentioned = append(mentioned, name)
		} else {
			others = append(others, name)
		}
	}
	if len(mentioned) > 0 {
		obstacles = append(obstacles, "git does not track "+Named(mentioned)+
			", which the task or a check names: the agent works without it. Commit it, or add --dirty")
	}
	return obstacles, Named(others)
}

// mentions tells whether a text names a file or a folder, by its path or by its last element.
func mentions(text, name string) bool {
	whole := strings.TrimSuffix(name, "/")
	return stands(text, whole, "") || stands(text, path.Base(whole), "/")
}

// stands tells whether a name stands in a text by itself: nothing of a word is beside it, and none of the
// characters in other in front of it. A name that is also a word, such as build, counts as a path only:
// with a slash behind it, or with ./ in front.
func stands(text, name, other string) bool {
	isWord := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
	for at := 0; ; at++ {
		next := strings.Index(text[at:], name)
		if next < 0 {
			return false
		}
		at += next
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		behind, _ := utf8.DecodeRuneInString(text[at+len(name):])
		switch {
		case ofWord(before), strings.ContainsRune(other, before), ofWord(behind):
		case isWord && behind != '/' && !strings.HasSuffix(text[:at], "./"):
		default:
			return true
		}
	}
}

func ofWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-'
}

package repo

import (
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Reached lets a test watch the steps of a landing.
func (p *Project) Reached(f func(step string)) { p.reached = f }

// PretendGit lets a test take the path of an older git.
func (p *Project) PretendGit(major, minor int) { p.git.Version = [2]int{major, minor} }

// The parsers of what comes from outside, for fuzzing.
var (
	CheckPath     = checkPath
	SensitiveName = func(name string) string { return planted.Classify(name).Reason() }
	ParseVersion  = git.ParseVersion
)

// ParseChanges is parseChanges on raw output.
func ParseChanges(out []byte) ([]Change, error) { return parseChanges(git.Zeros(out)) }

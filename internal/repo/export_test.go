package repo

// Reached lets a test watch the steps of a landing.
func (p *Project) Reached(f func(step string)) { p.reached = f }

// PretendGit lets a test take the path of an older git.
func (p *Project) PretendGit(major, minor int) { p.git.version = [2]int{major, minor} }

// The parsers of what comes from outside, for fuzzing.
var (
	CheckPath     = checkPath
	SensitiveName = sensitiveName
	ParseVersion  = parseVersion
)

// ParseChanges is parseChanges on raw output.
func ParseChanges(out []byte) ([]Change, error) { return parseChanges(zeros(out)) }

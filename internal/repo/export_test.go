package repo

// Reached lets a test watch the steps of a landing.
func (p *Project) Reached(f func(step string)) { p.reached = f }

// PretendGit lets a test take the path of an older git.
func (p *Project) PretendGit(major, minor int) { p.git.version = [2]int{major, minor} }

package installation

// Caveats are what a person should know of a session before its agent begins.
type Caveats struct {
	// NotEnforced are the limits that this machine cannot hold.
	NotEnforced []string `json:"not_enforced,omitempty"`
	// Widened are the limits of the role that are held less narrowly than it says.
	Widened []string `json:"widened,omitempty"`
	// Obstacles are what will keep the result of a run from landing as things are.
	Obstacles []string `json:"obstacles,omitempty"`
	// Unseen names files that git does not track, without which the agent works.
	Unseen string `json:"unseen,omitempty"`
}

package firewall

// Cost is how many characters JSON takes at most.
func Cost(encoded []byte) int { return cost(encoded) }

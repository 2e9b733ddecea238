package pins

// MaxPinned is how much the copies of one session hold at most.
const MaxPinned = maxPinned

package disk

// Descriptor is a lock's own.
func Descriptor(l *Lock) int { return int(l.file.Fd()) }

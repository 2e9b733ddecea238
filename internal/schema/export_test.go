package schema

// CheckFormat says why a text is not of a format.
func CheckFormat(format, text string) error { return checkFormat(format, text) }

// Formats are those that are checked.
func Formats() []string { return formats }

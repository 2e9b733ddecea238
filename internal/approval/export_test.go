package approval

// Parted is parted, whose input anybody may have written.
func Parted(row []byte) (body []byte, signed bool) {
	_, body, signed = parted(row)
	return body, signed
}

//go:build !cgo

package probe_test

const linkedWithC = false

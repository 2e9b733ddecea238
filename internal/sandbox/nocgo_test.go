//go:build !cgo

package sandbox_test

const linkedWithC = false

//go:build cgo

package sandbox_test

// linkedWithC says that this binary cannot be PID 1: a program with C threads
// cannot give up its powers in all of them. The race detector needs C.
const linkedWithC = true

// Package grant promises what an embedder of the kernel needs around its
// tokens: keys and revocations that outlast the process (K-10, K-12), a token as
// one line of text, and a narrower token made by a holder who has neither key nor
// kernel (K-11).
//
// It does not decide who may have a token, and verifies none: kernel.Invoke does.
package grant

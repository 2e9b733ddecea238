// Package grant promises what an embedder of the kernel needs around its tokens. Keys and
// revocations outlast the process (K-10, K-12). A token is one line of text, and a holder who has
// neither key nor kernel makes a narrower one (K-11).
//
// It does not decide who may have a token, and verifies none: kernel.Invoke does.
package grant

// Package nacre holds the nouns that every room of nacre shares, and the few
// interfaces that an outsider implements: [Driver], [Approver], [Recorder].
//
// It imports the standard library only and performs no effect: no clock, no
// randomness, no files, no network. Every enumeration's zero value is the
// strictest one (Deny, Destructive, Untrusted), so a forgotten field refuses.
package nacre

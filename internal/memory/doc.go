// Package memory keeps what a group's agents learned, in one SQLite file a
// group, and gives it back by search and as a brief (D-40 to D-45).
//
// It promises that provenance comes from the host, and that an agent's entry is untrusted until an
// operator trusts it. Only trusted entries enter the brief, and an agent can neither hide nor
// delete one. No text a user types makes a search fail, and what looks like a secret is not stored.
// What an operator erases is gone with all that derives from it, from the file's bytes too (M-57).
// A file that is damaged, newer or not a memory is refused with an [*UnusableError] and not
// repaired.
//
// It decides nothing about calls: what memory says can inform an agent, and
// never allow anything (D-44).
package memory

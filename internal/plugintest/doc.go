// Package plugintest is what authors hold their plugins against (D-22). New makes one that works at
// once, and Validate finds what can be known without running it. Run starts it in the real host and
// the real sandbox and looks whether it keeps the protocol.
//
// It promises that all findings come at once, each with what to do, and that a
// tool which destroys or needs a person's word is not called unless told so. It
// proves no handler right: it looks for the mistakes that others made.
package plugintest

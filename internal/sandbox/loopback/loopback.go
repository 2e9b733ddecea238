// Package loopback promises to reach what listens on the loopback of a sandbox's network, where
// the sandbox's kernel is this machine's, and nothing else of it (U-06).
package loopback

import "errors"

// ErrNone says that a backend cannot reach the ports of its sandboxes.
var ErrNone = errors.New("ports of a container with a kernel of its own, such as gVisor's, cannot be reached: that kernel hands no socket to nacre. Publish ports with the engine's own runtime, or with the native sandbox ([sandbox] backend = \"native\")")

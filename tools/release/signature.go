package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// namespace keeps a signature of a release from counting for anything else.
const namespace = "nacre-release"

// sign signs the checksums with a key of OpenSSH's, into checksums.txt.sig.
func (b build) sign(key string) error {
	list := filepath.Join(b.out, "checksums.txt")
	command := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, list)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("sign with %s: %w", key, err)
	}
	return nil
}

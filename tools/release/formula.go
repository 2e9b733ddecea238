package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

// formula writes a Homebrew formula for the tarballs that were made.
func (b build) formula() error {
	var systems strings.Builder
	for _, one := range []struct{ system, on string }{{linux, "on_linux"}, {"darwin", "on_macos"}} {
		hardware, err := b.hardware(one.system)
		if err != nil {
			return err
		}
		if hardware != "" {
			fmt.Fprintf(&systems, "  %s do\n%s    depends_on \"git\"\n  end\n\n", one.on, hardware)
		}
	}
	return write(filepath.Join(b.out, "nacre.rb"), fmt.Sprintf(`class Nacre < Formula
  desc "Shell between an AI agent and everything it can touch"
  homepage "https://github.com/nacre-dev/nacre"
  version %q
  license "Apache-2.0"

%s  def install
    libexec.install Dir["lib/nacre/*"]
    bin.install_symlink libexec/"nacre"
    man1.install Dir["share/man/man1/*"]
    doc.install Dir["share/doc/nacre/*"]
    bash_completion.install "share/bash-completion/completions/nacre"
    zsh_completion.install "share/zsh/site-functions/_nacre"
    fish_completion.install "share/fish/vendor_completions.d/nacre.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/nacre version")
  end
end
`, strings.TrimPrefix(b.version, "v"), systems.String()))
}

// hardware says where the tarballs of a system are; nothing where none was made.
func (b build) hardware(system string) (string, error) {
	var hardware strings.Builder
	for _, one := range []struct{ arch, on string }{{"amd64", "on_intel"}, {"arm64", "on_arm"}} {
		name := target{build: b, system: system, arch: one.arch}.name("nacre", ".tar.gz")
		data, err := os.ReadFile(filepath.Join(b.out, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&hardware, "    %s do\n      url \"https://github.com/nacre-dev/nacre/releases/download/%s/%s\"\n      sha256 %q\n    end\n",
			one.on, b.version, name, hex.EncodeToString(sum[:]))
	}
	return hardware.String(), nil
}

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
	var hardware strings.Builder
	for _, one := range []struct{ arch, on string }{{"amd64", "on_intel"}, {"arm64", "on_arm"}} {
		t := target{build: b, arch: one.arch}
		data, err := os.ReadFile(filepath.Join(b.out, t.name("nacre", ".tar.gz")))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&hardware, "    %s do\n      url \"https://github.com/nacre-dev/nacre/releases/download/%s/%s\"\n      sha256 %q\n    end\n",
			one.on, b.version, t.name("nacre", ".tar.gz"), hex.EncodeToString(sum[:]))
	}
	return write(filepath.Join(b.out, "nacre.rb"), fmt.Sprintf(`class Nacre < Formula
  desc "Shell between an AI agent and everything it can touch"
  homepage "https://github.com/nacre-dev/nacre"
  version %q
  license "Apache-2.0"

  on_linux do
%s    depends_on "git"
  end

  def install
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
`, strings.TrimPrefix(b.version, "v"), hardware.String()))
}

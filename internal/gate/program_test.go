package gate_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/gate"
)

// F-98: a listed cargo works on the project, with its toolchain, by subcommands of its own.
func TestCargoStaysOnTheProject(t *testing.T) {
	rule := gate.Rule{Kind: gate.BashAllowlist, Commands: []string{`^cargo( |$)`, `^rustc( |$)`}}
	for command, want := range map[string]string{
		"cargo test --manifest-path=/tmp/other/Cargo.toml":   "deny",
		"cargo test --manifest-path /tmp/other/Cargo.toml":   "deny",
		"cargo --manifest-path=/tmp/o/Cargo.toml test":       "deny",
		"cargo test --manifest-path=../other/Cargo.toml":     "deny",
		"cargo test --manifest-path=/w/repo/a/Cargo.toml":    "allow",
		"cargo test --manifest-path=a/Cargo.toml":            "allow",
		"cargo -C /tmp/other build":                          "deny",
		"cargo -C/tmp/other build":                           "deny",
		"cargo --config=/tmp/x.toml build":                   "deny",
		"cargo +nightly test":                                "deny",
		"cargo +1.80 test":                                   "deny",
		"rustc +nightly a.rs":                                "deny",
		"cargo evil":                                         "deny",
		"cargo --locked evil build":                          "deny",
		"cargo -q xtask":                                     "deny",
		"cargo build --target-dir /tmp/t":                    "allow",
		"cargo build --lockfile-path /tmp/other/Cargo.lock":  "deny",
		"cargo test -- +nightly --manifest-path=/tmp/x evil": "allow",
		"cargo t":               "allow",
		"cargo fmt --check":     "allow",
		"cargo nextest run":     "allow",
		"cargo run --bin x":     "allow",
		"cargo --version":       "allow",
		"cargo help":            "allow",
		"cargo llvm-cov report": "deny",
	} {
		if d := bash(t, rule, command); verdict(d) != want {
			t.Errorf("%s: %s, want %s: %s", command, verdict(d), want, d.Reason)
		}
	}
}

// F-111: what asks git about itself alone is no git operation.
func TestGitMayBeAskedAboutItself(t *testing.T) {
	rule := gate.Rule{Kind: gate.NoGitOps}
	for command, want := range map[string]string{
		"git --version": "allow", "git version": "allow", "git version --build-options": "allow", "git --help": "allow", "git help": "allow", "git -v": "allow", "git --exec-path": "allow",
		"/usr/bin/git --version": "allow", "x=$(git --version); echo $x": "allow",
		"git": "deny", "git --version; git status": "deny", "git -c alias.version=!sh version": "deny", "git --exec-path=/tmp/x version": "deny", "GIT_EXEC_PATH=/tmp git --version": "deny",
		"git help status": "deny", "git version x": "deny", "git --version $x": "deny", "git --version -C /": "deny", "/tmp/git --version": "deny", "export GIT_TRACE=/tmp/x; git --version": "deny",
		"echo status | xargs git --version": "deny", "tig --version": "deny", "git() { rm x; }; git --version": "deny",
	} {
		if d := bash(t, rule, command); verdict(d) != want {
			t.Errorf("%s: %s, want %s: %s", command, verdict(d), want, d.Reason)
		}
	}
}

// F-110: what a program on the command line writes is among the files of the task, and so is
// what a link that is made leads to.
func TestProgramsAndLinksStayAmongTheFiles(t *testing.T) {
	rule := gate.Rule{Kind: gate.FilesWhitelist, Whitelist: []string{"src/**"}}
	for command, want := range map[string]string{
		`python3 -c "open('other.txt','w').write('x')"`:                            "deny",
		`python -c "open('src/a.py','w').write('x')"`:                              "allow",
		`python3 -c "open(name,'w').write('x')"`:                                   "deny",
		`python3 -c "from pathlib import Path; Path('other.txt').write_text('x')"`: "deny",
		`python3 -c "from pathlib import Path; Path('src/a.txt').write_text('x')"`: "allow",
		`python3 -c "import shutil; shutil.copy('a','b')"`:                         "deny",
		`python3 -c "import os; os.remove('b')"`:                                   "deny",
		`python3 -c "import os; os.symlink('../b','src/b')"`:                       "deny",
		`python3 -c "print(open('other.txt').read())"`:                             "allow",
		`python3 -c "import json,sys; sys.stdout.write(json.dumps(1))"`:            "allow",
		"python3 - <<'E'\nopen('other.txt', mode='a').write('x')\nE":               "deny",
		`node -e "require('fs').writeFileSync('other.txt','x')"`:                   "deny",
		`node -e "require('fs').writeFileSync('src/a.js','x')"`:                    "allow",
		`node -e "console.log(require('fs').readFileSync('other.txt','utf8'))"`:    "allow",
		`perl -e 'open(F, ">", "other.txt")'`:                                      "deny",
		`perl -e 'open(F, ">other.txt")'`:                                          "deny",
		`perl -ne 'print if /x/' src/a`:                                            "allow",
		`ruby -e 'File.write("other.txt","x")'`:                                    "deny",
		`awk '{print > "other.txt"}' src/a`:                                        "deny",
		`awk '$1 > 3 {print $2}' src/a`:                                            "allow",
		"ln -s ../other.txt src/link":                                              "deny",
		"ln -s ../other.txt src/link && echo x > src/link":                         "deny",
		"ln -s a.txt src/link":                                                     "allow",
		"ln other.txt src/link":                                                    "deny",
		"ln src/a.txt src/link":                                                    "allow",
		"ln -s /etc/passwd src/link":                                               "deny",
		"cp -s other.txt src/link":                                                 "deny",
		"cp other.txt src/copy":                                                    "allow",
		"cp -l other.txt src/link":                                                 "deny",
		"ln -s -t src ../other.txt":                                                "deny",
		"ln -s /tmp/x src/link":                                                    "deny",
	} {
		if d := bash(t, rule, command); verdict(d) != want {
			t.Errorf("%s: %s, want %s: %s", command, verdict(d), want, d.Reason)
		}
	}
}

package planted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/planted"
)

// M-13, F-04, F-05, F-14: what obeys a file is said with its program.
func TestAFileIsToldWithWhoObeysIt(t *testing.T) {
	for name, want := range map[string]string{
		"Makefile": "make runs what it says", "sub/.envrc": "direnv runs what it says", "CLAUDE.md": "Claude Code obeys it",
		"main.d": "make, where a Makefile includes it, runs what it says", ".git/config": "git obeys it", "conftest.py": "pytest", "CMakeCache.txt": "CMake runs",
		"_json.py": "Python imports it", "_bisect.so": "Python imports it", "build.py": "Python imports it", "flask.py": "Python imports it", "django/__init__.py": "Python imports it",
		"sphinx.py": "Python imports it", "pre_commit.py": "Python imports it", "JSON.PY": "Python imports it",
		"a.o": "build output", "libs/x.jar": "build output", "lib/libssl.so.3": "build output", "data.pickle": "build output", "bin/tool": "build output", "dist/a.js": "build output",
		"-rf": "option", ".unknown": "begins with a dot",
	} {
		if have := planted.Classify(name).Reason(); !strings.Contains(have, want) {
			t.Errorf("%s: have %q, want %q", name, have, want)
		}
	}
	for _, name := range []string{"main.go", "lib/json.py", "lib/_json.py", "src/bin/main.rs", "src/index.js", "README.md", ".pytest_cache/.gitignore", "docs/x.txt"} {
		if c := planted.Classify(name); c.Kind != planted.None || c.Reason() != "" {
			t.Errorf("%s: have %+v", name, c)
		}
	}
}

// F-01 to F-14: what a program of a host obeys without being told to is on the list. It stands there
// with that program, and not as any file whose name begins with a dot. Each of these stood on no line
// before.
func TestWhatProgramsObeyIsOnTheList(t *testing.T) {
	for program, names := range map[string]string{
		"a tool of git hooks":             "lefthook-local.json lefthook-local.toml lefthook.jsonc .overcommit.yml .lefthook.yml .lefthook-local.toml",
		"an editor":                       "nbactions.xml x.kdev4 x.workspace",
		"an editor's language server":     ".clangd .luarc.json",
		"a game's editor":                 "project.godot addons/x/plugin.cfg a.gdextension a.uproject a.uplugin a.asmdef projectsettings/x",
		"a coding agent":                  "replit.md GROK.md .rules .goosehints .roomodes .pi/settings.json .cline/x .crush.json",
		"a shell's plugin":                "devenv.local.yaml pkgx.yaml .sdkmanrc .prototools",
		"a desktop that shows the folder": "x.terminal x.inetloc x.webloc x.hta x.reg x.library-ms x.settingcontent-ms",
		"a tool of node's":                "src/setupTests.ts src/setupProxy.js nest-cli.json electron-builder.yaml .eslintrc .eslintrc.js .prettierrc.mjs .babelrc.json .mocharc.cjs .lintstagedrc .releaserc lighthouserc.js .markdownlint.cjs .markdownlint-cli2.jsonc .remarkrc.mjs .storybook/main.js",
		"Deno":                            "import_map.json",
		"continuous integration":          ".cirrus.yml .cirrus.star .build.yml",
		"a debugger or an interpreter that reads the folder's own settings": ".rdbgrc .rdbgrc.rb .byebugrc .perldb .erlang .octaverc .RData .psysh.php",
		"a shell": ".mc.menu .tmuxp.yaml .tmuxinator.yml",
		"pytest, tox or another of Python's test tools": ".coveragerc .pytest.ini",
		"a tool of Python's":                            "dbt_project.yml prefect.yaml MLproject jupyter_server_config.json jupyter_config.json ipython_kernel_config.py .pylintrc .pdbrc meta.yaml",
		"Python, at every start,":                       "python312._pth",
		"SCons, Waf or xmake":                           "site_scons/site_init.py",
		"a build or package tool":                       "b/project-config.jam spack.yaml _CoqProject",
		"Bundler, rake or another of Ruby's tools":      ".rspec .irbrc .pryrc .rubocop.yml cucumber.yml config/spring.rb",
		"Composer or another of PHP's tools":            ".user.ini .htaccess .php-cs-fixer.php .php-cs-fixer.dist.php codeception.yml behat.yml castor.php RoboFile.php deploy.php infection.json5",
		"dotnet":                                        "a.esproj a.sqlproj a.wixproj a.tt a.runsettings a.nuspec a.projitems build.fsx",
		"mix or rebar":                                  ".formatter.exs .iex.exs config/dev.exs config/test.exs",
		"Cabal or Stack":                                ".ghci",
		"dune or opam":                                  ".ocamlinit",
		"R":                                             ".Rprofile .Renviron",
		"gdb":                                           ".gdbinit .lldbinit",
		"go":                                            ".golangci.yml .air.toml modd.conf",
		"Gradle":                                        "init.gradle settings.gradle.kts",
		"sbt, Mill or another of Scala's tools":         ".jvmopts .sbtopts build.mill.yaml bleep.yaml",
		"Nim, D or Ada":                                 "src/main.nim.cfg",
		"MATLAB":                                        "startup.m",
		"a tool that runs a workflow":                   "nextflow.config snakemake.smk",
		"Idris, PureScript, Racket or Lisp":             "a.ipkg spago.dhall spago.yaml info.rkt a.asd",
		"Ansible":                                       "molecule/default/molecule.yml requirements.yml",
		"a hosting service":                             ".gitpod.yml .replit jitpack.yml cog.yaml",
		"people and tools":                              "a.vbs a.psm1 a.xlsm a.deb a.vsix a.dmg a.scpt",
		"a modelling program":                           "a.blend",
		"cargo":                                         ".cargo/config.toml build.rs rust-toolchain sub/release.toml sub/cargo-generate.toml",
		"npm, pnpm, yarn or bun":                        ".pnp.cjs .pnp.loader.mjs .pnpmfile.mjs .npmrc .yarnrc.yml bunfig.toml",
		"a task runner":                                 ".justfile x.just",
		"perl":                                          ".proverc cpanfile minil.toml",
	} {
		for name := range strings.FieldsSeq(names) {
			if c := planted.Classify(name); c.Program != program || c.Kind == planted.Hidden {
				t.Errorf("%s: have %s by %q, want %q", name, c.Kind, c.Program, program)
			}
		}
	}
}

func TestEachKindHasANameAndAReason(t *testing.T) {
	for kind := planted.Git; kind <= planted.Hidden; kind++ {
		text, err := json.Marshal(planted.Found("x", planted.Class{Kind: kind, Program: "make"}))
		var back planted.Finding
		if err != nil || json.Unmarshal(text, &back) != nil || back.Kind != kind || back.Reason == "" {
			t.Errorf("%d: %s, %+v, %v", kind, text, back, err)
		}
	}
	var none planted.Kind
	if none.UnmarshalText([]byte("unheard of")) == nil || (planted.Class{}).Reason() != "" {
		t.Error("what is not known has a meaning")
	}
}

// F-06: each finding counts in one group, and the groups are few.
func FuzzGroups(f *testing.F) {
	f.Add("a/Makefile\n.envrc\nb/c/d/x.so\n-rf\ntarget/\n.")
	f.Fuzz(func(t *testing.T, paths string) {
		var findings []planted.Finding
		for path := range strings.SplitSeq(paths, "\n") {
			if c := planted.Classify(path); c.Kind != planted.None {
				findings = append(findings, planted.Found(path, c))
			}
		}
		count := 0
		for _, g := range planted.Groups(findings) {
			count += g.Count
			if g.String() == "" || len(g.Reasons) == 0 || len(g.Names) == 0 {
				t.Errorf("a group says nothing: %+v", g)
			}
		}
		if count != len(findings) {
			t.Errorf("%d findings, %d in groups", len(findings), count)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	names := []string{"src/internal/server/handler.go", "web/app/components/Button.tsx", "Makefile", "docs/guide/start.md"}
	for b.Loop() {
		for _, name := range names {
			planted.Classify(name)
		}
	}
}

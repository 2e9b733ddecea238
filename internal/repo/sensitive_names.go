package repo

import "sync"

// The tables are made when they are first asked: most commands never do.

// sensitiveDirs are components, lower-case: everything below is sensitive. Those
// that begin with a dot and are not here have reasonHidden.
var sensitiveDirs = sync.OnceValue(func() map[string]string {
	return map[string]string{
		".git": reasonGit, ".githooks": reasonGit, ".husky": reasonGit, ".lefthook": reasonGit,
		".hg": reasonVersions, ".jj": reasonVersions, ".svn": reasonVersions, ".bzr": reasonVersions, ".sl": reasonVersions, "_darcs": reasonVersions,
		".vscode": reasonEditor, ".idea": reasonEditor, ".vs": reasonEditor, ".zed": reasonEditor, ".fleet": reasonEditor,
		".devcontainer": reasonEditor, ".vim": reasonEditor, ".nvim": reasonEditor, ".helix": reasonEditor, ".emacs.d": reasonEditor,
		".run": reasonEditor, ".settings": reasonEditor, ".externaltoolbuilders": reasonEditor, "nbproject": reasonEditor, ".nova": reasonEditor,
		".claude": reasonAgent, ".codex": reasonAgent, ".cursor": reasonAgent, ".gemini": reasonAgent, ".continue": reasonAgent,
		".windsurf": reasonAgent, ".roo": reasonAgent, ".kiro": reasonAgent, ".opencode": reasonAgent, ".agents": reasonAgent, ".agent": reasonAgent,
		".clinerules": reasonAgent, ".amazonq": reasonAgent, ".augment": reasonAgent, ".junie": reasonAgent, ".trae": reasonAgent, ".qwen": reasonAgent,
		".goose": reasonAgent, ".crush": reasonAgent, ".factory": reasonAgent, ".openhands": reasonAgent, ".amp": reasonAgent, ".kilocode": reasonAgent,
		".aiassistant": reasonAgent, ".copilot": reasonAgent, ".claude-plugin": reasonAgent, ".nacre": reasonAgent,
		".direnv": reasonShell, ".mise": reasonShell, ".devenv": reasonShell, ".ssh": reasonShell, ".gnupg": reasonShell, ".aws": reasonShell,
		".cargo": reasonBuild, ".mvn": reasonBuild, ".yarn": reasonBuild, ".bazel": reasonBuild, ".bundle": reasonBuild, ".gradle": reasonBuild,
		".terraform": reasonBuild, ".config": reasonBuild, "fastlane": reasonBuild, "magefiles": reasonBuild, "debian": reasonBuild,
		".circleci": reasonCI, ".buildkite": reasonCI, ".gitlab": reasonCI, ".ci": reasonCI, ".forgejo": reasonCI, ".gitea": reasonCI,
		".github": reasonCI, ".woodpecker": reasonCI, ".semaphore": reasonCI, ".teamcity": reasonCI, ".builds": reasonCI, ".tekton": reasonCI,
		"node_modules": reasonDeps, "bower_components": reasonDeps, ".venv": reasonDeps, "venv": reasonDeps, ".tox": reasonDeps, ".nox": reasonDeps,
		"site-packages": reasonDeps, "__pycache__": reasonCompiled,
		"githooks": reasonGit, "git-hooks": reasonGit, "cvs": reasonVersions, "mise-tasks": reasonShell, "_plugins": reasonBuild,
		"buildsrc": reasonBuild, "tuist": reasonBuild, "renv": reasonBuild, "mise": reasonShell,
		"action_plugins": reasonBuild, "callback_plugins": reasonBuild, "connection_plugins": reasonBuild, "filter_plugins": reasonBuild,
		"inventory_plugins": reasonBuild, "lookup_plugins": reasonBuild, "strategy_plugins": reasonBuild, "vars_plugins": reasonBuild,
	}
})

// sensitiveDirEnds are the ends of components, lower-case, from a dot on.
var sensitiveDirEnds = map[string]string{
	".xcodeproj": reasonEditor, ".xcworkspace": reasonEditor, ".egg-info": reasonDeps, ".dist-info": reasonDeps,
}

// sensitiveNames are base names, lower-case.
var sensitiveNames = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"_vimrc": reasonEditor, "_exrc": reasonEditor, "_gvimrc": reasonEditor, ".exrc": reasonEditor, ".vimrc": reasonEditor, ".nvimrc": reasonEditor,
		".nvim.lua": reasonEditor, ".dir-locals.el": reasonEditor, ".dir-locals-2.el": reasonEditor, ".project": reasonEditor, ".lvimrc": reasonEditor,
		"compile_commands.json": reasonEditor, "hie.yaml": reasonEditor,
		"claude.md": reasonAgent, "claude.local.md": reasonAgent, "agents.md": reasonAgent, "agent.md": reasonAgent, "agents.override.md": reasonAgent,
		"gemini.md": reasonAgent, "qwen.md": reasonAgent, "crush.md": reasonAgent, "warp.md": reasonAgent, "codex.md": reasonAgent, "skill.md": reasonAgent,
		".mcp.json": reasonAgent, "mcp.json": reasonAgent, ".cursorrules": reasonAgent, ".windsurfrules": reasonAgent,
		".aider.conf.yml": reasonAgent, "opencode.json": reasonAgent, "opencode.jsonc": reasonAgent, "crush.json": reasonAgent,
		".envrc": reasonShell, ".env": reasonShell, ".autoenv.zsh": reasonShell, "mise.toml": reasonShell, ".mise.toml": reasonShell,
		"mise.local.toml": reasonShell, ".tool-versions": reasonShell, ".rvmrc": reasonShell, "devbox.json": reasonShell, "devenv.yaml": reasonShell,
		"package.json": reasonBuild, "package.json5": reasonBuild, "package.yaml": reasonBuild, "package-lock.json": reasonBuild, "npm-shrinkwrap.json": reasonBuild,
		"pnpm-workspace.yaml": reasonBuild, "pnpm-lock.yaml": reasonBuild, ".npmrc": reasonBuild, ".yarnrc": reasonBuild, ".yarnrc.yml": reasonBuild,
		".pnpmfile.cjs": reasonBuild, "bunfig.toml": reasonBuild, "deno.json": reasonBuild, "deno.jsonc": reasonBuild, "binding.gyp": reasonBuild,
		"nx.json": reasonBuild, "turbo.json": reasonBuild, "lerna.json": reasonBuild, "angular.json": reasonBuild,
		"setup.py": reasonBuild, "setup.cfg": reasonBuild, "pyproject.toml": reasonBuild, "pytest.ini": reasonBuild, "mypy.ini": reasonBuild,
		"conftest.py": reasonBuild, "tox.ini": reasonBuild, "sitecustomize.py": reasonBuild, "usercustomize.py": reasonBuild, "pylintrc": reasonBuild,
		"pip.conf": reasonBuild, "pip.ini": reasonBuild, "uv.toml": reasonBuild, "poetry.toml": reasonBuild, "pixi.toml": reasonBuild, "hatch.toml": reasonBuild,
		"hatch_build.py": reasonBuild, "dodo.py": reasonBuild, "pavement.py": reasonBuild, "conanfile.txt": reasonBuild,
		"environment.yml": reasonBuild, "environment.yaml": reasonBuild, "constraints.txt": reasonBuild, "pyvenv.cfg": reasonDeps,
		"build.rs": reasonBuild, "cargo.toml": reasonBuild, "rust-toolchain": reasonBuild, "rust-toolchain.toml": reasonBuild,
		"go.mod": reasonBuild, "go.work": reasonBuild, "go.sum": reasonBuild,
		"gradlew": reasonBuild, "gradlew.bat": reasonBuild, "gradle-wrapper.properties": reasonBuild, "gradle-wrapper.jar": reasonBuild,
		"gradle.properties": reasonBuild, "libs.versions.toml": reasonBuild, "mvnw": reasonBuild, "mvnw.cmd": reasonBuild, "pom.xml": reasonBuild,
		"build.xml": reasonBuild, "ivy.xml": reasonBuild, "build.sc": reasonBuild, "build.mill": reasonBuild, "build.properties": reasonBuild,
		"cmakelists.txt": reasonBuild, "cmakepresets.json": reasonBuild, "cmakeuserpresets.json": reasonBuild, "configure": reasonBuild,
		"configure.ac": reasonBuild, "autogen.sh": reasonBuild, "bootstrap": reasonBuild, "bootstrap.sh": reasonBuild, "meson.build": reasonBuild,
		"meson_options.txt": reasonBuild, "meson.options": reasonBuild, "sconstruct": reasonBuild, "sconscript": reasonBuild, "wscript": reasonBuild,
		"xmake.lua": reasonBuild, "premake5.lua": reasonBuild, "vcpkg.json": reasonBuild, "build.zig": reasonBuild, "build.zig.zon": reasonBuild,
		"package.swift": reasonBuild, "package.resolved": reasonBuild, "dune": reasonBuild, "dune-project": reasonBuild,
		"setup.hs": reasonBuild, "setup.lhs": reasonBuild, "stack.yaml": reasonBuild, "cabal.project": reasonBuild,
		"mix.exs": reasonBuild, "rebar.config": reasonBuild, "rebar.config.script": reasonBuild, "project.clj": reasonBuild, "deps.edn": reasonBuild,
		"bb.edn": reasonBuild, "shadow-cljs.edn": reasonBuild, "project.toml": reasonBuild, "pubspec.yaml": reasonBuild, "shard.yml": reasonBuild,
		"composer.json": reasonBuild, "phpunit.xml": reasonBuild, "phpunit.xml.dist": reasonBuild, "phpstan.neon": reasonBuild, "artisan": reasonBuild,
		"makefile.pl": reasonBuild, "build.pl": reasonBuild, "nuget.config": reasonBuild, "global.json": reasonBuild, "dotnet-tools.json": reasonBuild,
		"build": reasonBuild, "build.bazel": reasonBuild, "workspace": reasonBuild, "workspace.bazel": reasonBuild, "module.bazel": reasonBuild,
		"bazel": reasonBuild, "buck": reasonBuild, "pants.toml": reasonBuild, "skaffold.yaml": reasonBuild, "docker-bake.hcl": reasonBuild,
		"compose.yaml": reasonBuild, "compose.yml": reasonBuild, "compose.override.yaml": reasonBuild, "compose.override.yml": reasonBuild,
		"ansible.cfg": reasonBuild, "serverless.yml": reasonBuild, "pulumi.yaml": reasonBuild, "terragrunt.hcl": reasonBuild, "devspace.yaml": reasonBuild,
		"lefthook.yml": reasonGit, "lefthook.yaml": reasonGit, "lefthook.toml": reasonGit, "lefthook.json": reasonGit, "lefthook-local.yml": reasonGit,
		"lefthook-local.yaml": reasonGit, ".pre-commit-config.yaml": reasonGit, "captainhook.json": reasonGit, "grumphp.yml": reasonGit,
		".gitlab-ci.yml": reasonCI, ".travis.yml": reasonCI, ".drone.yml": reasonCI, ".woodpecker.yml": reasonCI, "azure-pipelines.yml": reasonCI,
		"azure-pipelines.yaml": reasonCI, "appveyor.yml": reasonCI, "bitbucket-pipelines.yml": reasonCI, "cloudbuild.yaml": reasonCI,
		"buildspec.yml": reasonCI, "bitrise.yml": reasonCI, "codefresh.yml": reasonCI, "wercker.yml": reasonCI, "action.yml": reasonCI, "action.yaml": reasonCI,
		"renovate.json": reasonCI, "netlify.toml": reasonCI, "vercel.json": reasonCI, "render.yaml": reasonCI, "fly.toml": reasonCI,
		"tsconfig.json": reasonEditor, "jsconfig.json": reasonEditor, "rust-analyzer.toml": reasonEditor, "rust-project.json": reasonEditor,
		"omnisharp.json": reasonEditor, "session.vim": reasonEditor, "compile_flags.txt": reasonEditor, "launchsettings.json": reasonEditor,
		"cppproperties.json": reasonEditor, "cmakesettings.json": reasonEditor, "tasks.vs.json": reasonEditor, "launch.vs.json": reasonEditor,
		"analysis_options.yaml": reasonEditor, "psscriptanalyzersettings.psd1": reasonEditor, "devcontainer.json": reasonEditor,
		"copilot-instructions.md": reasonAgent, "copilot.md": reasonAgent, "jules.md": reasonAgent, "codebuddy.md": reasonAgent, "iflow.md": reasonAgent,
		"soul.md": reasonAgent, "heartbeat.md": reasonAgent, "gemini-extension.json": reasonAgent, "claude_desktop_config.json": reasonAgent,
		"hooks.json": reasonAgent, "rtx.toml": reasonShell, "activate-hermit": reasonShell, "desktop.ini": reasonShell,
		"autorun.inf": reasonShell, "pytest.toml": reasonBuild, "tox.toml": reasonBuild, "pylintrc.toml": reasonBuild, "conf.py": reasonBuild,
		"celeryconfig.py": reasonBuild, "scrapy.cfg": reasonBuild, "mkdocs.yml": reasonBuild, "mkdocs.yaml": reasonBuild, "dvc.yaml": reasonBuild,
		"alembic.ini": reasonBuild, "jupyter_notebook_config.py": reasonBuild, "jupyter_server_config.py": reasonBuild,
		"jupyter_lab_config.py": reasonBuild, "ipython_config.py": reasonBuild, "cross.toml": reasonBuild,
		"trunk.toml": reasonBuild, "bacon.toml": reasonBuild, "foundry.toml": reasonBuild, "lean-toolchain": reasonBuild,
		"lake-manifest.json": reasonBuild, "air.toml": reasonBuild, "buf.yaml": reasonBuild, "buf.gen.yaml": reasonBuild, "sqlc.yaml": reasonBuild,
		"goreleaser.yml": reasonBuild, "goreleaser.yaml": reasonBuild, "wails.json": reasonBuild, "aclocal.m4": reasonBuild, "config.guess": reasonBuild,
		"config.sub": reasonBuild, "config.status": reasonBuild, "install-sh": reasonBuild, "ltmain.sh": reasonBuild, "depcomp": reasonBuild,
		"libtool": reasonBuild, "test-driver": reasonBuild, "kbuild": reasonBuild, "kconfig": reasonBuild, "jamroot": reasonBuild,
		"tuprules.tup": reasonBuild, "deps": reasonBuild, "packages.config": reasonBuild, "paket.dependencies": reasonBuild, "build.boot": reasonBuild,
		"profiles.clj": reasonBuild, "user.clj": reasonBuild, "mill": reasonBuild, "millw": reasonBuild, "sbt": reasonBuild, "sbtx": reasonBuild,
		"amper": reasonBuild, "rebar3": reasonBuild, "waf": reasonBuild, "pants": reasonBuild, "ctesttestfile.cmake": reasonBuild, "config.ru": reasonBuild,
		"gems.rb": reasonBuild, "gems.locked": reasonBuild, "appraisals": reasonBuild, "phpstan.neon.dist": reasonBuild, "phpstan.dist.neon": reasonBuild,
		"psalm.xml": reasonBuild, "psalm.xml.dist": reasonBuild, "phpcs.xml": reasonBuild, "phpcs.xml.dist": reasonBuild, "rector.php": reasonBuild,
		"ecs.php": reasonBuild, "config.exs": reasonBuild, "runtime.exs": reasonBuild, "dune-workspace": reasonBuild, "dune.inc": reasonBuild,
		"myocamlbuild.ml": reasonBuild, "opam": reasonBuild, "dist.ini": reasonBuild, "activate.r": reasonBuild, "manifest.toml": reasonBuild,
		"juliaproject.toml": reasonBuild, "localpreferences.toml": reasonBuild, "nim.cfg": reasonBuild, "dub.json": reasonBuild, "dub.sdl": reasonBuild,
		"build.yaml": reasonBuild, "melos.yaml": reasonBuild, "alire.toml": reasonBuild, "latexmkrc": reasonBuild, "texmf.cnf": reasonBuild,
		"truffle.js": reasonBuild, "brownie-config.yaml": reasonBuild, "cdk.json": reasonBuild, "firebase.json": reasonBuild, "wrangler.toml": reasonBuild,
		"wrangler.jsonc": reasonBuild, "wrangler.json": reasonBuild, "project.json": reasonBuild, "workspace.json": reasonBuild, "rush.json": reasonBuild,
		"moon.yml": reasonBuild, "dagger.json": reasonBuild, "guix.scm": reasonBuild, "manifest.scm": reasonBuild, "aqua.yaml": reasonBuild,
		"dprint.json": reasonBuild, "treefmt.toml": reasonBuild, "tslint.json": reasonBuild, "jsdoc.json": reasonBuild, "typedoc.json": reasonBuild,
		"nodemon.json": reasonBuild, "gatsby-node.js": reasonBuild, "electron-builder.yml": reasonBuild, "codegen.yml": reasonBuild,
		"codegen.ts": reasonBuild, "pkgbuild": reasonBuild, "apkbuild": reasonBuild, "invoke.yaml": reasonBuild, "prek.toml": reasonGit,
		"hk.pkl": reasonGit, "cog.toml": reasonGit, "cloudbuild.yml": reasonCI, "cloudbuild.json": reasonCI, "buildspec.yaml": reasonCI,
		"pre-commit": reasonGit, "prepare-commit-msg": reasonGit, "commit-msg": reasonGit, "post-commit": reasonGit, "pre-rebase": reasonGit,
		"post-checkout": reasonGit, "post-merge": reasonGit, "pre-push": reasonGit, "post-rewrite": reasonGit, "pre-auto-gc": reasonGit,
		"fsmonitor-watchman": reasonGit, "simple-git-hooks.json": reasonGit, "_fossil_": reasonVersions,
		"activate": reasonShell, "activate.csh": reasonShell, "activate.fish": reasonShell, "activate.nu": reasonShell, "activate.ps1": reasonShell,
		"activate_this.py": reasonDeps, "python": reasonDeps, "python3": reasonDeps, "pip": reasonDeps, "pip3": reasonDeps, "rails": reasonBuild, "lein": reasonBuild,
		"spec_helper.rb": reasonBuild, "rails_helper.rb": reasonBuild, "test_helper.rb": reasonBuild, "mocha.opts": reasonBuild, "bsconfig.json": reasonBuild,
		"rescript.json": reasonBuild, "esy.json": reasonBuild, "project.yml": reasonBuild, "build.scala": reasonBuild, "project.scala": reasonBuild,
		"ormconfig.js": reasonBuild, "ormconfig.ts": reasonBuild, "_config.yml": reasonBuild, "web.config": reasonBuild, "appspec.yml": reasonCI,
		"environment.py": reasonBuild, "presubmit.py": reasonBuild, "build.plz": reasonBuild, "targets": reasonBuild, "workspace.bzlmod": reasonBuild,
		"eldev": reasonBuild, "cask": reasonBuild, "eask": reasonBuild, "keg": reasonBuild, "testem.js": reasonBuild, "testem.json": reasonBuild,
		"nightwatch.json": reasonBuild, "cypress.json": reasonBuild, "local.properties": reasonBuild,
		"vcpkg-configuration.json": reasonBuild, "supervisord.conf": reasonBuild, "process-compose.yaml": reasonBuild, "process-compose.yml": reasonBuild,
		"mprocs.yaml": reasonBuild, "phpunit.dist.xml": reasonBuild, "wp-cli.yml": reasonBuild, "app.json": reasonBuild, "test_helper.exs": reasonBuild,
		"verification-metadata.xml": reasonBuild, "gradle-daemon-jvm.properties": reasonBuild,
		"railway.json": reasonCI, "railway.toml": reasonCI, "heroku.yml": reasonCI, "appveyor.yaml": reasonCI, "renovate.json5": reasonCI,
	}
})

// sensitiveBegins are the beginnings of base names, lower-case.
var sensitiveBegins = map[string]string{
	".git": reasonGit, ".env.": reasonShell,
	"dockerfile.": reasonBuild, "containerfile.": reasonBuild, "jenkinsfile.": reasonCI, "makefile.": reasonBuild,
	"tsconfig.": reasonBuild, "cabal.project.": reasonBuild, "configure.": reasonBuild, "pulumi.": reasonBuild, "serverless.": reasonBuild,
	"package@swift": reasonBuild, "docker-bake.": reasonBuild, "mise.": reasonShell, "azure-pipelines": reasonCI, "docker-compose": reasonBuild,
	"dockerfile-": reasonBuild, "webpack.": reasonBuild, "vitest.": reasonBuild,
}

// sensitiveEnds are the ends of base names, lower-case, from a dot or a dash on.
var sensitiveEnds = sync.OnceValue(func() map[string]string {
	return map[string]string{
		".code-workspace": reasonEditor, ".sublime-project": reasonEditor, ".sublime-build": reasonEditor, ".sublime-settings": reasonEditor,
		".iml": reasonEditor, ".ipr": reasonEditor, ".iws": reasonEditor, ".launch": reasonEditor,
		".mk": reasonBuild, ".mak": reasonBuild, ".cmake": reasonBuild, ".ninja": reasonBuild, ".pth": reasonBuild, ".nix": reasonShell, ".pyc": reasonCompiled,
		".gradle": reasonBuild, ".gradle.kts": reasonBuild, ".sbt": reasonBuild, ".gemspec": reasonBuild, ".bzl": reasonBuild, ".bazelrc": reasonBuild, ".just": reasonBuild,
		".csproj": reasonBuild, ".fsproj": reasonBuild, ".vbproj": reasonBuild, ".vcxproj": reasonBuild, ".proj": reasonBuild, ".rsp": reasonBuild,
		".props": reasonBuild, ".targets": reasonBuild, ".sln": reasonBuild, ".slnx": reasonBuild, ".cake": reasonBuild,
		".cabal": reasonBuild, ".opam": reasonBuild, ".rockspec": reasonBuild, ".podspec": reasonBuild, ".rproj": reasonBuild, ".gyp": reasonBuild, ".gypi": reasonBuild,
		".dockerfile": reasonBuild, ".tf": reasonBuild, ".tofu": reasonBuild, ".lock": reasonBuild, ".lockb": reasonBuild,
		".run.xml": reasonEditor, ".geany": reasonEditor, ".cbp": reasonEditor, ".user": reasonEditor, ".sublime-workspace": reasonEditor,
		".sublime-commands": reasonEditor, ".desktop": reasonShell, ".lnk": reasonShell, ".scf": reasonShell, ".gn": reasonBuild, ".gni": reasonBuild,
		".pro": reasonBuild, ".pri": reasonBuild, ".qbs": reasonBuild, ".mill": reasonBuild, ".rake": reasonBuild, ".thor": reasonBuild,
		".kts": reasonBuild, ".nimble": reasonBuild, ".nims": reasonBuild, ".gpr": reasonBuild, ".hxml": reasonBuild, ".xcconfig": reasonBuild,
		".hcl": reasonBuild, ".tf.json": reasonBuild, ".bazel": reasonBuild, ".m4": reasonBuild, ".spec": reasonBuild, ".ebuild": reasonBuild,
		".egg-link": reasonBuild, "-gdb.py": reasonBuild, "-gdb.gdb": reasonBuild, "-gdb.scm": reasonBuild, "-config.js": reasonBuild,
		".build.ps1": reasonBuild, ".gitlab-ci.yml": reasonCI,
		".make": reasonBuild, ".wrap": reasonBuild, ".tfvars": reasonBuild, ".prisma": reasonBuild,
		".instructions.md": reasonAgent, ".prompt.md": reasonAgent, ".chatmode.md": reasonAgent, ".agent.md": reasonAgent, ".mdc": reasonAgent, ".url": reasonShell, ".command": reasonScript,
		".pyo": reasonCompiled, ".pyd": reasonCompiled, ".elc": reasonCompiled, ".zwc": reasonCompiled,
	}
})

// sensitiveStems are base names up to their first dot, whatever language follows it.
var sensitiveStems = sync.OnceValue(func() map[string]bool {
	return map[string]bool{
		"gulpfile": true, "gruntfile": true, "jakefile": true, "magefile": true, "fabfile": true, "noxfile": true, "taskfile": true,
		"rakefile": true, "conanfile": true, "pipfile": true,
		"pnpmfile": true, "knexfile": true, "plopfile": true, "brocfile": true, "dangerfile": true, "gemfile": true, "procfile": true, "vagrantfile": true,
		"tiltfile": true, "earthfile": true, "brewfile": true, "guardfile": true, "podfile": true, "justfile": true, "locustfile": true, "shakefile": true,
		"lakefile": true, "maskfile": true, "helmfile": true, "psakefile": true, "ember-cli-build": true,
	}
})

// topNames are files that a tool reads where they are at the top.
var topNames = map[string]string{
	"tasks.py": reasonBuild, "make.rules": reasonBuild, "make.config": reasonBuild,
	"identity.md": reasonAgent, "tools.md": reasonAgent, "user.md": reasonAgent, "memory.md": reasonAgent, "bootstrap.md": reasonAgent,
	"knowledge.md": reasonAgent,
}

// topEnds are those of a tool's configuration, and of scripts, where they are at the top.
var topEnds = map[string]string{
	".toml": reasonBuild, ".ini": reasonBuild, ".cfg": reasonBuild,
	".sh": reasonScript, ".bash": reasonScript, ".zsh": reasonScript, ".fish": reasonScript, ".bat": reasonScript, ".cmd": reasonScript, ".ps1": reasonScript,
}

// compiledEnds are those of what a change brings that nobody can read.
var compiledEnds = map[string]string{
	".so": reasonCompiled, ".dll": reasonCompiled, ".dylib": reasonCompiled, ".jar": reasonCompiled, ".class": reasonCompiled,
	".node": reasonCompiled, ".exe": reasonCompiled,
}

// harmlessHidden are names that nothing runs anything for.
var harmlessHidden = map[string]bool{
	".keep": true, ".editorconfig": true, ".nojekyll": true, ".ds_store": true, ".coverage": true,
	".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true, ".nyc_output": true,
}

package shell

// WrapperOf tells the programs that run what they are given.
func WrapperOf(name string) (Wrapper, bool) {
	for _, of := range [...]func(string) (Wrapper, bool){launcher, changer, packager} {
		if spec, ok := of(name); ok {
			return spec, true
		}
	}
	return Wrapper{}, false
}

// launcher is a program that only starts another one: nohup, timeout, xargs.
func launcher(name string) (Wrapper, bool) {
	switch name {
	case "nohup", "setsid", "chronic", "builtin", "noglob", "nocorrect", "-", "fakeroot", "unbuffer", "ccache", "sccache", "distcc",
		"catchsegv", "eatmydata", "ssh-agent", "systemd-cat", "aa-exec", "busybox", "toybox", "proxychains", "proxychains4", "torsocks", "torify", "ifne", "setpriv", "tini", "dumb-init", "catatonit":
		return Wrapper{flags: "cfwpqvl", values: "W"}, true
	case "repeat":
		return Wrapper{Skip: 1}, true
	case "command":
		return Wrapper{flags: "p"}, true
	case "exec":
		return Wrapper{flags: "cl", values: "a"}, true
	case "time", "gtime":
		return Wrapper{flags: "apqvV", values: "fo", long: "--format --output"}, true
	case "timeout", "gtimeout":
		return Wrapper{flags: "fpv", values: "ks", long: "--kill-after --signal", Skip: 1}, true
	case "nice", "gnice":
		return Wrapper{flags: "0123456789", values: "n", long: "--adjustment"}, true
	case "ionice":
		return Wrapper{flags: "t", values: "cnpPu", long: "--class --classdata"}, true
	case "stdbuf", "gstdbuf":
		return Wrapper{values: "ioe", long: "--input --output --error"}, true
	case "taskset", "chrt", "cpulimit", "schedtool":
		return Wrapper{flags: "abcfior", values: "", Skip: 1}, true
	case "setarch", "linux32", "linux64", "i386", "x86_64", "aarch64":
		return Wrapper{flags: "BFILRSTXZv3"}, true
	case "xargs", "gxargs":
		return Wrapper{flags: "0oprtx", values: "aEdILnPsRSJ", long: "--arg-file --delimiter --max-args --max-procs --max-chars --max-lines --replace --process-slot-var", appends: true}, true
	case "watch":
		return Wrapper{flags: "bcdegptwx", values: "nq", long: "--interval --equexit", joins: true}, true
	case "entr":
		return Wrapper{flags: "acdnprsxz", joins: true}, true
	case "strace":
		return Wrapper{values: "oepEuasPSIOUX", scripts: "-c --command --run"}, true
	case "ltrace":
		return Wrapper{values: "oepuas", scripts: "-c --command --run"}, true
	case "cgexec":
		return Wrapper{values: "g"}, true
	case "valgrind", "dtruss", "heaptrack", "uftrace", "caffeinate", "rlwrap", "prlimit", "numactl", "winpty",
		"dbus-run-session", "dbus-launch", "chpst", "run-one", "sshpass", "dotenv",
		"reflex", "retry", "tsp", "wine", "arch", "trickle", "systemd-inhibit":
		return Wrapper{scripts: "-c --command --run"}, true
	}
	return Wrapper{}, false
}

// changer is a program that starts another one as somebody else, or in another place: sudo, env, ssh.
func changer(name string) (Wrapper, bool) {
	switch name {
	case "env", "genv":
		return Wrapper{flags: "iv0", values: "uCP", long: "--unset --chdir", scripts: "-S --split-string", assigns: true}, true
	case "sudo":
		return Wrapper{flags: "AbEeHiKklnPSsVvN", values: "ugpCcDhRTtUr", long: "--user --group --prompt --chdir --host --role --type --close-from --chroot --other-user --command-timeout", assigns: true}, true
	case "doas":
		return Wrapper{flags: "Lns", values: "uCa"}, true
	case "pkexec":
		return Wrapper{long: "--user"}, true
	case "runuser":
		return Wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command"}, true
	case "su":
		return Wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command", Skip: 1}, true
	case "sg", "newgrp":
		return Wrapper{scripts: "-c", Skip: 1, joins: true}, true
	case "script":
		return Wrapper{flags: "aefq", values: "EIOBTmot", long: "--echo --log-in --log-out --log-io --log-timing --logging-format --output-limit", scripts: "-c --command", Skip: 1}, true
	case "flock":
		return Wrapper{flags: "Fensuxo", values: "wE", long: "--wait --timeout --conflict-exit-code", scripts: "-c --command", Skip: 1}, true
	case "ssh", "autossh", "mosh":
		return Wrapper{flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopQRSWw", Skip: 1, joins: true}, true
	case "chroot":
		return Wrapper{long: "--userspec --groups", Skip: 1}, true
	case "faketime", "setuidgid", "gosu", "su-exec", "envdir":
		return Wrapper{flags: "f", Skip: 1}, true
	case "cross-env", "env-cmd":
		return Wrapper{values: "f", assigns: true}, true
	case "cross-env-shell":
		return Wrapper{joins: true}, true
	case "proot", "unshare", "systemd-run":
		return Wrapper{values: "rbwpu", scripts: "-c --command --run", loose: true}, true
	case "perf", "rr", "bwrap", "firejail", "nsenter", "capsh", "gdb", "lldb", "screen", "tmux", "xvfb-run", "start-stop-daemon",
		"daemonize", "daemon", "expect", "schroot", "runcon", "xterm", "gnome-terminal", "konsole", "kitty", "alacritty", "stap", "bpftrace", "dtrace", "envchain", "run-parts",
		"hyperfine", "watchexec", "sem":
		return Wrapper{scripts: "-c --command --run", loose: true}, true
	}
	return Wrapper{}, false
}

// packager is a package manager or a version manager, of which a subcommand runs a program.
func packager(name string) (Wrapper, bool) {
	switch name {
	case "npm", "pnpm", "yarn", "bun":
		return Wrapper{sub: "exec x dlx", scripts: "-c --call", long: "--package"}, true
	case "npx", "bunx", "pnpx":
		return Wrapper{values: "p", long: "--package", scripts: "-c --call"}, true
	case "poetry", "uv", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "micromamba", "pyenv", "pixi", "op", "infisical", "sops", "doppler", "dotenvx":
		return Wrapper{sub: "run exec", values: "n", long: "--name --with --python"}, true
	case "bundle", "rbenv":
		return Wrapper{sub: "exec x"}, true
	case "rustup":
		return Wrapper{sub: "run", Skip: 1}, true
	case "direnv", "aws-vault", "vaulted", "chamber":
		return Wrapper{sub: "exec", Skip: 1}, true
	case "mise", "rtx", "asdf":
		return Wrapper{sub: "exec x", loose: true}, true
	case "nix", "nix-shell", "guix", "devbox", "flatpak", "distrobox", "toolbox":
		return Wrapper{scripts: "--run --command -c", scriptsOnly: true}, true
	}
	return Wrapper{}, false
}

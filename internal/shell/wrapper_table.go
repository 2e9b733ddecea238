package shell

import "strings"

// wrapperOf tells the programs that run what they are given.
func wrapperOf(name string) (wrapper, bool) {
	for _, of := range [...]func(string) (wrapper, bool){launcher, changer, packager} {
		if spec, ok := of(name); ok {
			return spec, true
		}
	}
	return wrapper{}, false
}

// launcher is a program that only starts another one: nohup, timeout, xargs.
func launcher(name string) (wrapper, bool) {
	if strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") { // the loader of programs: ld-linux-x86-64.so.2
		name = "ld.so"
	}
	switch name {
	case "qemu-x86_64", "qemu-x86_64-static", "qemu-i386", "qemu-i386-static", "qemu-aarch64", "qemu-aarch64-static":
		return wrapper{loose: true}, true
	case "ld.so":
		return wrapper{long: "--library-path --preload --argv0 --audit --inhibit-rpath --glibc-hwcaps-prepend --glibc-hwcaps-mask"}, true
	case "nohup", "setsid", "chronic", "builtin", "noglob", "nocorrect", "-", "fakeroot", "unbuffer", "ccache", "sccache", "distcc",
		"catchsegv", "eatmydata", "ssh-agent", "systemd-cat", "aa-exec", "busybox", "toybox", "proxychains", "proxychains4", "torsocks", "torify", "ifne", "setpriv", "tini", "dumb-init", "catatonit":
		return wrapper{flags: "cfwpqvl", values: "W"}, true
	case "repeat":
		return wrapper{skip: 1}, true
	case "command":
		return wrapper{flags: "p"}, true
	case "exec":
		return wrapper{flags: "cl", values: "a"}, true
	case "time", "gtime":
		return wrapper{flags: "apqvV", values: "fo", long: "--format --output"}, true
	case "timeout", "gtimeout":
		return wrapper{flags: "fpv", values: "ks", long: "--kill-after --signal", skip: 1}, true
	case "nice", "gnice":
		return wrapper{flags: "0123456789", values: "n", long: "--adjustment"}, true
	case "ionice":
		return wrapper{flags: "t", values: "cnpPu", long: "--class --classdata"}, true
	case "stdbuf", "gstdbuf":
		return wrapper{values: "ioe", long: "--input --output --error"}, true
	case "cpulimit":
		return wrapper{flags: "bfiqrvz", values: "lpePsc", long: "--limit --pid --exe --path --signal"}, true
	case "choom", "uclampset":
		return wrapper{flags: "asR", values: "npmM", long: "--adjust --pid --util-min --util-max"}, true
	case "logsave":
		return wrapper{flags: "asv", skip: 1}, true
	case "softlimit", "s6-softlimit":
		return wrapper{values: "amdlrsofpct"}, true
	case "pee":
		return wrapper{joins: true}, true
	case "nc", "ncat", "netcat", "execlineb":
		return wrapper{scripts: "-c -e --exec --sh-exec", scriptsOnly: true}, true
	case "taskset", "chrt", "schedtool":
		return wrapper{flags: "abcfior", values: "", skip: 1}, true
	case "setarch", "linux32", "linux64", "i386", "x86_64", "aarch64":
		return wrapper{flags: "BFILRSTXZv3"}, true
	case "xargs", "gxargs":
		return wrapper{flags: "0oprtx", values: "aEdILnPsRSJ", long: "--arg-file --delimiter --max-args --max-procs --max-chars --max-lines --replace --process-slot-var", appends: true}, true
	case "watch":
		return wrapper{flags: "bcdegptwx", values: "nq", long: "--interval --equexit", joins: true}, true
	case "entr":
		return wrapper{flags: "acdnprsxz", joins: true}, true
	case "strace":
		return wrapper{values: "oepEuasPSIOUX", scripts: "-c --command --run"}, true
	case "ltrace":
		return wrapper{values: "oepuas", scripts: "-c --command --run"}, true
	case "cgexec":
		return wrapper{values: "g"}, true
	case "valgrind", "dtruss", "heaptrack", "uftrace", "caffeinate", "rlwrap", "prlimit", "numactl", "winpty",
		"dbus-run-session", "dbus-launch", "chpst", "run-one", "sshpass", "dotenv",
		"reflex", "retry", "tsp", "wine", "arch", "trickle", "systemd-inhibit":
		return wrapper{scripts: "-c --command --run"}, true
	}
	return wrapper{}, false
}

// changer is a program that starts another one as somebody else, or in another place: sudo, env, ssh.
func changer(name string) (wrapper, bool) {
	switch name {
	case "env", "genv":
		return wrapper{flags: "iv0", values: "uCP", long: "--unset --chdir", scripts: "-S --split-string", assigns: true}, true
	case "sudo":
		return wrapper{flags: "AbEeHiKklnPSsVvN", values: "ugpCcDhRTtUr", long: "--user --group --prompt --chdir --host --role --type --close-from --chroot --other-user --command-timeout", assigns: true}, true
	case "run0":
		return wrapper{values: "ugD", long: "--user --group --chdir --nice --setenv --slice --property --unit --description --machine --background"}, true
	case "doas":
		return wrapper{flags: "Lns", values: "uCa"}, true
	case "pkexec":
		return wrapper{long: "--user"}, true
	case "runuser":
		return wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command"}, true
	case "su":
		return wrapper{flags: "lmfpP", values: "gGsuwT", long: "--group --supp-group --shell --user", scripts: "-c --command --session-command", skip: 1}, true
	case "sg", "newgrp":
		return wrapper{scripts: "-c", skip: 1, joins: true}, true
	case "script":
		return wrapper{flags: "aefq", values: "EIOBTmot", long: "--echo --log-in --log-out --log-io --log-timing --logging-format --output-limit", scripts: "-c --command", skip: 1}, true
	case "flock":
		return wrapper{flags: "Fensuxo", values: "wE", long: "--wait --timeout --conflict-exit-code", scripts: "-c --command", skip: 1}, true
	case "ssh", "autossh", "mosh":
		return wrapper{flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopQRSWw", skip: 1, joins: true}, true
	case "chroot":
		return wrapper{long: "--userspec --groups", skip: 1}, true
	case "faketime", "setuidgid", "s6-setuidgid", "gosu", "su-exec", "envdir":
		return wrapper{flags: "f", skip: 1}, true
	case "cross-env", "env-cmd":
		return wrapper{values: "f", assigns: true}, true
	case "cross-env-shell":
		return wrapper{joins: true}, true
	case "proot", "unshare", "systemd-run":
		return wrapper{values: "rbwpu", scripts: "-c --command --run", loose: true}, true
	case "perf", "rr", "bwrap", "firejail", "nsenter", "capsh", "gdb", "lldb", "screen", "tmux", "xvfb-run", "start-stop-daemon",
		"daemonize", "daemon", "expect", "schroot", "runcon", "xterm", "gnome-terminal", "konsole", "kitty", "alacritty", "stap", "bpftrace", "dtrace", "envchain", "run-parts",
		"hyperfine", "watchexec", "sem":
		return wrapper{scripts: "-c --command --run", loose: true}, true
	}
	return wrapper{}, false
}

// packager is a package manager or a version manager, of which a subcommand runs a program.
func packager(name string) (wrapper, bool) {
	switch name {
	case "npm", "pnpm", "yarn", "bun":
		return wrapper{sub: "exec x dlx", scripts: "-c --call", long: "--package"}, true
	case "npx", "bunx", "pnpx":
		return wrapper{values: "p", long: "--package", scripts: "-c --call"}, true
	case "poetry", "uv", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "micromamba", "pyenv", "pixi", "op", "infisical", "sops", "doppler", "dotenvx":
		return wrapper{sub: "run exec", values: "n", long: "--name --with --python"}, true
	case "ip":
		return wrapper{sub: "netns vrf", values: "n", loose: true}, true
	case "bundle", "rbenv":
		return wrapper{sub: "exec x"}, true
	case "rustup":
		return wrapper{sub: "run", skip: 1}, true
	case "volta", "fnm", "nvm", "tox":
		return wrapper{sub: "run exec e", loose: true}, true
	case "direnv", "aws-vault", "vaulted", "chamber":
		return wrapper{sub: "exec", skip: 1}, true
	case "mise", "rtx", "asdf":
		return wrapper{sub: "exec x", loose: true}, true
	case "nix", "nix-shell", "guix", "devbox", "flatpak", "distrobox", "toolbox":
		return wrapper{scripts: "--run --command -c", scriptsOnly: true}, true
	}
	return wrapper{}, false
}

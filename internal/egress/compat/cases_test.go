package compat_test

import (
	"slices"

	"github.com/nacre-dev/nacre/internal/egress"
)

// cases are all rows of the table.
func cases() []testCase {
	return slices.Concat(gitCases(), packageCases(), curlCases(), languageCases(), agentCases())
}

const elsewhere = "elsewhere.test"

// fill puts what a client's cases have in common into each.
func fill(client, program, host string, list ...testCase) []testCase {
	for i := range list {
		list[i].client, list[i].program = client, program
		switch {
		case list[i].denied:
			list[i].host = elsewhere
		case list[i].host == "":
			list[i].host = host + "." + domain
		}
	}
	return list
}

func gitCases() []testCase {
	const clone = "cd /tmp && git clone https://git.compat.test/repo.git r && cd r && git config user.name t && git config user.email t@example.invalid\n"
	return fill("git", "git", "git",
		testCase{name: "clone over https", script: clone + "git log --format=%s", want: "first"},
		testCase{name: "clone --depth 1 over https", script: "cd /tmp && git clone --depth 1 https://git.compat.test/repo.git r && git -C r log --format=%s", want: "first"},
		testCase{name: "push over https", script: clone + "echo x >f && git add f && git commit -qm pushed && git push origin HEAD:refs/heads/pushed-$(date +%s%N)", want: "new branch"},
		testCase{name: "push of 8 MiB over https, chunked", script: clone + "head -c 8388608 /dev/urandom >f && git add f && git commit -qm big && git push origin HEAD:refs/heads/big-$(date +%s%N)", want: "new branch"},
		testCase{name: "fetch over https", script: clone + "git fetch origin && git log --format=%s --branches --remotes", want: "pushed"},
		testCase{name: "clone of a host that is not listed", denied: true, script: "git clone https://elsewhere.test/repo.git /tmp/r", want: "403"},
	)
}

func packageCases() []testCase {
	return slices.Concat(
		fill("npm", "npm", "npm",
			testCase{name: "npm ci of 41 packages", unless: oldNpm, because: becauseOldNpm, script: "cp -r npm /tmp/p && cd /tmp/p && npm ci --no-audit --no-fund && node -p 'require(\"dep\")'", want: "dep works"},
			testCase{name: "npm install", unless: oldNpm, because: becauseOldNpm, script: "mkdir /tmp/p && cd /tmp/p && npm init -y >/dev/null && npm install --no-audit --no-fund --registry https://npm.compat.test dep && node -p 'require(\"dep\")'", want: "dep works"},
			testCase{name: "npm install from a registry that is not listed", denied: true, unless: oldNpm, because: becauseOldNpm, script: "cd /tmp && npm install --no-audit --fetch-retries 0 --registry https://elsewhere.test dep", want: "npm"}),
		fill("pip", "pip3", "pypi",
			testCase{name: "pip install", script: "python3 -m pip install -q --target /tmp/t --index-url https://pypi.compat.test/simple/ dep && PYTHONPATH=/tmp/t python3 -c 'import dep; print(dep.text)'", want: "dep works"},
			testCase{name: "pip install from an index that is not listed", denied: true, script: "python3 -m pip install --retries 0 --target /tmp/t --index-url https://elsewhere.test/simple/ dep", want: "No matching distribution"}),
		fill("cargo", "cargo", "crates",
			testCase{name: "cargo fetch, sparse index", unless: oldCargo, because: becauseOldCargo, script: "cp -r cargo /tmp/p && cd /tmp/p && CARGO_HOME=/tmp/cargo cargo fetch && find /tmp/cargo -name 'dep-1.0.0.crate'", want: "dep-1.0.0.crate"},
			testCase{name: "cargo fetch from an index that is not listed", denied: true, unless: oldCargo, because: becauseOldCargo, script: "cp -r cargo /tmp/p && cd /tmp/p && sed -i s/crates.compat.test/elsewhere.test/ .cargo/config.toml && CARGO_NET_RETRY=0 CARGO_HOME=/tmp/cargo cargo fetch", want: "403"}),
		fill("go", "go", "goproxy",
			testCase{name: "go mod download", script: goModule + "GOPROXY=https://goproxy.compat.test go mod download -json", want: `"Version": "v1.0.0"`},
			testCase{name: "go mod download from a proxy that is not listed", denied: true, script: goModule + "GOPROXY=https://elsewhere.test go mod download", want: "Denied by nacre: not_listed; ask for --egress elsewhere.test:443"}),
		fill("apt", "apt-get", "apt",
			testCase{name: "apt-get update and download over https", refusal: egress.ReasonPath, script: "sh apt.sh https", want: "dep works"},
			testCase{name: "apt-get update and download over http", script: "sh apt.sh http", want: "dep works"},
			testCase{name: "apt-get update from a host that is not listed", denied: true, script: "sed -i s/apt.compat.test/elsewhere.test/ apt.sh; sh apt.sh https; r=$?; sed -i s/elsewhere.test/apt.compat.test/ apt.sh; exit $r", want: "not_listed"}),
	)
}

// goModule is a module that needs another, with caches that can be written.
const goModule = "cp -r gomod /tmp/p && cd /tmp/p && mv go.mod.txt go.mod && export GOFLAGS=-mod=mod GOMODCACHE=/tmp/mod\n"

func curlCases() []testCase {
	const big = "67108864 bytes 3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
	return slices.Concat(
		fill("curl", "curl", "www",
			testCase{name: "GET over https", script: "curl -fsS https://www.compat.test/hello", want: "hello from www.compat.test"},
			testCase{name: "GET over HTTP/2", script: "curl -fsS --http2 -w '%{http_version}' https://www.compat.test/hello", want: "\n2"},
			testCase{name: "GET over HTTP/1.1, one connection for many", script: "curl -fsS --http1.1 -w '%{num_connects}\\n' https://www.compat.test/hello https://www.compat.test/hello", want: "\n0\n"},
			testCase{name: "TLS 1.2", script: "curl -fsS --tls-max 1.2 -w '%{ssl_verify_result}' https://www.compat.test/hello", want: "hello"},
			testCase{name: "upload of 64 MiB", script: "head -c 67108864 /dev/zero >/tmp/z && curl -fsS -T /tmp/z https://www.compat.test/upload", want: big},
			testCase{name: "upload of 64 MiB, chunked", script: "head -c 67108864 /dev/zero | curl -fsS --http1.1 -T - https://www.compat.test/upload", want: big},
			testCase{name: "download of 64 MiB", script: "curl -fsS https://www.compat.test/big | wc -c", want: "67108864"},
			testCase{name: "a stream of events", script: "curl -fsSN https://www.compat.test/stream", want: "data: 4"},
			testCase{name: "a redirect to the same host", script: "curl -fsSL https://www.compat.test/near", want: "hello"},
			testCase{name: "GET over plain http", script: "curl -fsS http://www.compat.test/hello", want: "hello"},
			testCase{name: "upload of 64 MiB over plain http", script: "head -c 67108864 /dev/zero >/tmp/z && curl -fsS -T /tmp/z http://www.compat.test/upload", want: big},
			testCase{name: "slow chunked upload over plain http", script: "{ echo a; sleep 0.2; echo b; } | curl -fsS -T - http://www.compat.test/upload", want: "4 bytes"},
			testCase{name: "a refused upload over plain http", script: "head -c 67108864 /dev/zero >/tmp/z && curl -sS -w '%{http_code}' -T /tmp/z http://www.compat.test/refuse", want: "413"},
			testCase{name: "a redirect to a host that is not listed", denied: true, script: "curl -fsSL https://www.compat.test/away", want: "403"},
			testCase{name: "a host that is not listed, over plain http", denied: true, script: "curl -sS --fail-with-body http://elsewhere.test/", want: "--egress elsewhere.test:80/http"}),
		fill("wget", "wget", "www",
			testCase{name: "GET", script: "wget -qO- --ca-certificate=$ca https://www.compat.test/hello", want: "hello"},
			testCase{name: "GET of a host that is not listed", denied: true, script: "wget -O- https://elsewhere.test/", want: "Denied by nacre: not_listed; ask for --egress elsewhere.test:443"}),
	)
}

// oldNode holds where Node does not read the proxy's variables at all.
const (
	oldNode    = `v=$(node -p 'const [a, b] = process.versions.node.split("."); a >= 25 || a == 24 && b >= 5 || a == 22 && b >= 21'); test $v = false`
	becauseOld = "this Node does not read the proxy's variables; 22.21 and 24.5 do"
)

// What holds where a client cannot do what is asked of it whatever the proxy does.
const (
	oldNpm         = `! npm --version >/dev/null 2>&1`
	becauseOldNpm  = "this npm does not run on this Node"
	ancientNode    = `! node -e 'null ?? 0' 2>/dev/null`
	becauseAncient = "this Node is older than 14, for which the client is written"
)

// oldCargo holds where cargo reads sparse indexes with a switch only (F-142).
const (
	oldCargo        = `test "$(cargo --version | cut -d. -f2)" -lt 68`
	becauseOldCargo = "this cargo reads no sparse index as it is; 1.68 does"
)

func languageCases() []testCase {
	return slices.Concat(
		fill("Python", "python3", "www",
			testCase{name: "urllib GET", script: "python3 client.py get https://www.compat.test/hello", want: "hello"},
			testCase{name: "urllib POST", script: "python3 client.py post https://www.compat.test/upload", want: "1048576 bytes"},
			testCase{name: "urllib GET over plain http", script: "python3 client.py get http://www.compat.test/hello", want: "hello"},
			testCase{name: "http.client through set_tunnel", script: "python3 client.py tunnel www.compat.test", want: "hello"},
			testCase{name: "websocket over TLS", refusal: egress.ReasonUpgrade, script: "python3 client.py websocket www.compat.test", want: "echo three"},
			testCase{name: "urllib GET of a host that is not listed", denied: true, script: "python3 client.py get https://elsewhere.test/", want: "Denied by nacre: not_listed; ask for --egress elsewhere.test:443"}),
		fill("Node", "node", "www",
			testCase{name: "https over CONNECT", unless: ancientNode, because: becauseAncient, script: "node client.js connect https://www.compat.test/hello", want: "hello"},
			testCase{name: "fetch", script: "node client.js fetch https://www.compat.test/hello", want: "200 hello", unless: oldNode, because: becauseOld},
			testCase{name: "WebSocket", refusal: egress.ReasonUpgrade, script: "node client.js websocket wss://www.compat.test/socket", want: "echo three", unless: oldNode, because: becauseOld},
			testCase{name: "https over CONNECT to a host that is not listed", denied: true, unless: ancientNode, because: becauseAncient, script: "node client.js connect https://elsewhere.test/", want: "403 Denied by nacre: not_listed; ask for --egress elsewhere.test:443"}),
		fill("Go net/http", "goclient", "www",
			testCase{name: "GET, HTTP/2", script: "goclient GET https://www.compat.test/hello", want: "HTTP/2.0 200 hello"},
			testCase{name: "POST, HTTP/2", script: "goclient POST https://www.compat.test/upload", want: "1048576 bytes"},
			testCase{name: "GET, plain http", script: "goclient GET http://www.compat.test/hello", want: "hello"},
			testCase{name: "GET, a host that is not listed", denied: true, script: "goclient GET https://elsewhere.test/", want: "Denied by nacre: not_listed; ask for --egress elsewhere.test:443"}),
	)
}

// agentCases are the agents' CLIs, as one runs them under nacre exec with a
// model server of one's own. A Codex that is refused waits for the network.
func agentCases() []testCase {
	const (
		claude = "export ANTHROPIC_API_KEY=sk-none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_MAX_RETRIES=0; claude -p 'say it' </dev/null"
		codex  = `export OPENAI_API_KEY=none; codex exec --skip-git-repo-check -c model_provider=t -c "model_providers.t={name=\"t\",base_url=\"$model/v1\",wire_api=\"responses\",env_key=\"OPENAI_API_KEY\",request_max_retries=0,stream_max_retries=0}" 'say it' </dev/null`
	)
	return slices.Concat(
		fill("Claude Code", "claude", "model",
			testCase{name: "a turn", script: "export ANTHROPIC_BASE_URL=https://model.compat.test; " + claude, want: "the model works"},
			testCase{name: "a turn with a model server that is not listed", denied: true, script: "export ANTHROPIC_BASE_URL=https://elsewhere.test; " + claude, want: ""}),
		fill("Codex", "codex", "model",
			testCase{name: "a turn", script: "model=https://model.compat.test; " + codex, want: "the model works"},
			testCase{name: "a turn with a model server that is not listed", denied: true, script: "model=https://elsewhere.test; (" + codex + ") >/tmp/out 2>&1 & until grep -q Reconnecting /tmp/out; do sleep 0.1; done; cat /tmp/out; exit 1", want: "waiting for network"}),
	)
}

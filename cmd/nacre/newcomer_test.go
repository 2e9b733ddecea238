package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-01, U-31: who has a project of npm's, Claude Code and a key gets from nothing to a sealed turn
// that ran the project's tests in three commands. They are setup, doctor and the one that setup
// names as the next. .ci/release walks it with what a package installed, in 60 s.
func TestANewcomerGetsToASealedTurn(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	t.Run("Claude Code", func(t *testing.T) {
		t.Parallel()
		claude := os.Getenv("NACRE_CLAUDE")
		if claude == "" {
			testpeer.Missing(t, "claude", "claude: name it in NACRE_CLAUDE")
		}
		newcomer(t, install(t), claude, "doctor")
	})
	t.Run("what stands for it", func(t *testing.T) {
		t.Parallel()
		i := install(t)
		i.program("reader", "tools/claude")
		newcomer(t, i, filepath.Join(i.work, "tools/claude"), "doctor", "--no-turns") // it does not follow the protocol of a run
	})
}

// newcomer walks the way with a program that is Claude Code, or stands for it.
func newcomer(t *testing.T, i *installation, claude string, doctor ...string) {
	command := `{"command":"npm test >tested 2>&1; node -p 40+2 >>tested"}`
	server, url := upstreamOf(t, scriptedmodel.Script{
		Turns: []scriptedmodel.Turn{
			{Text: "I will test.", Tools: []scriptedmodel.Tool{{Name: "Bash", Input: []byte(command)}}},
			{Text: "The tests pass."},
		},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
	})
	i.write("p/package.json", `{"name":"shop","version":"1.0.0","scripts":{"test":"node -e \"console.log('all is well')\""}}`)
	i.project()
	i.env = append(i.env, "ANTHROPIC_API_KEY=key-of-the-newcomer", "NACRE_CLAUDE="+claude)
	project := filepath.Join(i.work, "p")
	in := func(args ...string) result {
		r := &running{Cmd: i.command(filepath.Join(bin, "nacre"), args...)}
		r.Dir, r.Stdout, r.Stderr = project, &r.stdout, &r.stderr
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		return finish(t, r)
	}
	setup := in("setup", "--yes")
	setup.want(t, 0, "project Node, by package.json", "checks npm test", "agent  claude", "config.toml is written", "next")
	has(t, setup.stdout, "nacre claude")
	// The test's model stands in for the vendor's: a newcomer has not this line.
	file := "home/.config/nacre/config.toml"
	i.write(file, strings.Replace(i.read(file), "[model]\n", fmt.Sprintf("[model]\nbase_url = %q\n", url), 1))
	in(doctor...).want(t, 0)
	turn := in("claude", "-p", "please test")
	turn.want(t, 0, "The tests pass.")
	hasNo(t, turn.stdout+turn.stderr, "registry.npmjs.org") // npm asks nobody whether it is the newest (U-14)
	has(t, i.read("p/tested"), "all is well", "42")
	for _, request := range server.Requests() {
		if strings.Contains(string(request.Body), "key-of-the-newcomer") {
			t.Error("the agent knows the key")
		}
	}
	i.nacre("audit", "verify").want(t, 0)
}

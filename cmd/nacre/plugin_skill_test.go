package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// D-31, F-74: an agent finds the skills of the plugins that started, as their authors wrote them or
// made of their schemas, and changes none. Those of a plugin that could not be read are not there,
// and its tools are nobody's. So do a recording, and the command of nacre exec.
func TestAnAgentFindsTheSkillsOfPlugins(t *testing.T) {
	t.Parallel()
	const look = `{ cd /opt/nacre/role/skills && ls -l near; cat near/SKILL.md far/SKILL.md; ls broken; echo mine > near/SKILL.md; rm -rf near; mkdir more; ipc broken_do '{}'; } > /workspace/said 2>&1; true`
	_, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Tools: []scriptedmodel.Tool{{Name: "shell", Input: fmt.Appendf(nil, `{"command":%q}`, look)}}}, {Text: "Done."},
	}})
	i := reaching(t, "", "")
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[groups.main]\ntools = [\"*_do\"]\n[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.write("home/.local/share/nacre/plugins/near/skill/near.md", "# Near\n\nAsk it to count, in these very words.\n")
	i.write("home/.local/share/nacre/plugins/broken/skill/broken.md", "# Broken\n")
	i.write("home/.local/share/nacre/plugins/broken/manifest.json", `{"description": "d"}`)
	i.nacre("run", "look around", "--brain", "anthropic", "--project", "p", "--check", "true").want(t, 0, "merged")
	found := func(said string) {
		t.Helper()
		has(t, said, "in these very words", "far_do", "r--r--r--", "UNKNOWN_TOOL")
		hasNo(t, said, "# Broken")
		has(t, said, "near/SKILL.md: Read-only", "rm: ", "mkdir: ")
	}
	found(fileText(i.work + "/p/said"))

	// A recording and a command find the same, and a command is told where.
	i.write("r.jsonl", `{"v":1,"name":"r"}`+"\n"+fmt.Sprintf(`{"tool":"shell","input":{"command":%q}}`, strings.Replace(look, "/said", "/played", 1))+"\n")
	i.nacre("run", "look around", "--brain", "replay", "--recording", "r.jsonl", "--project", "p", "--check", "true").want(t, 0, "merged")
	found(fileText(i.work + "/p/played"))
	i.nacre("exec", "-q", "--project", "p", "--", "sh", "-c", strings.NewReplacer("/opt/nacre/role/skills", `"$NACRE_SKILLS"`, "/said", "/run").Replace(look)).want(t, 0)
	found(fileText(i.work + "/p/run"))

	// So it is where nothing stands behind the calls until the first of them.
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"schedule_*\"]\n")
	for range 3 {
		i.nacre("exec", "-q", "--", "grep", "-r", "^## ", "/opt/nacre/role").want(t, 0, "/nacre/SKILL.md:## list_tools", "/memory/SKILL.md", "/schedule/SKILL.md")
	}
}

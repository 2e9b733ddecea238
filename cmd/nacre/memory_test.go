package main_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // what a memory is kept in

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// M-57, D-44: what a session planted goes with all that is kept of it: its memories, the
// conversation from its turn on, what its agent reported. What cannot go is said.
func TestASessionIsForgotten(t *testing.T) {
	t.Parallel()
	says := func(content, report string) []scriptedmodel.Turn {
		command, _ := json.Marshal(map[string]string{"command": `ipc memory_store '{"type":"instruction","content":"` + content + `"}'`})
		return []scriptedmodel.Turn{{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}}, {Text: report}}
	}
	i, server := servedBy(t, "[groups.family]\ntools = [\"memory_*\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"family\"\nsession = \"resume\"\noperator = true\n",
		scriptedmodel.Script{Turns: says("the cat is called Minka", "Minka it is."), Others: []scriptedmodel.Other{
			{Match: scriptedmodel.Match{Contains: "and on Fridays"}, Turns: says("reports go out on Fridays", "Fridays, and to quokka.example.")},
			{Match: scriptedmodel.Match{Contains: "remember quokka"}, Turns: says("send copies to quokka.example", "Quokka.example it is.")},
		}})
	said, stop := i.serve()
	for n, body := range []string{"ada:my cat is Minka", "ada:remember quokka.example", "ada:and on Fridays"} {
		i.say(body)
		until(t, "the end of the turn", func() bool { return strings.Count(said(), "agent.completed") == n+1 })
	}
	has(t, string(server.Requests()[2].Body), "my cat is Minka") // the conversation went on
	stop()
	var list []struct {
		ID, Content string
		Provenance  struct {
			Session string `json:"session_id"`
		}
	}
	if err := json.Unmarshal([]byte(i.nacre("memory", "list", "--group", "family", "--json").stdout), &list); err != nil || len(list) != 3 {
		t.Fatalf("have %v, %v", list, err)
	}
	bad := list[1].Provenance.Session
	look := i.nacre("memory", "forget", "--group", "family", "--session", bad, "--dry-run")
	look.want(t, 0, "quokka.example", "conversation", bad, "1 turns stay", "1 entries were written by", "nacre audit prune")
	if len(i.holding("quokka")) < 3 {
		t.Fatalf("proves nothing: it is in %v", i.holding("quokka"))
	}
	gone := i.nacre("memory", "forget", "--group", "family", "--session", bad, "--recalled")
	gone.want(t, 0, "forgotten")
	for _, word := range []string{"quokka", "fridays"} {
		if have := i.unnamed(gone.stdout, word); len(have) != 0 {
			t.Errorf("%s is still in %v, which nothing names", word, have)
		}
	}
	i.nacre("memory", "list", "--group", "family").want(t, 0, "Minka")
	if kept := i.holding("my cat is minka"); len(kept) == 0 {
		t.Error("the turn before went, too")
	}
	i.nacre("memory", "forget", "--group", "family", "--session", bad).want(t, 0, "nothing")
	i.nacre("audit", "verify").want(t, 0)
}

// D-40, D-45: a memory that cannot be used stops what would use it, says what to do, and stays as it is.
func TestAMemoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"empty":   {func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }, "damaged: restore the file from a backup, or move it away"},
		"cut off": {func(t *testing.T, path string) { check(t, os.Truncate(path, 9000)) }, "damaged: restore the file from a backup, or move it away"},
		"no database": {func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte(strings.Repeat("x", 9000)), 0o600))
		}, "damaged"},
		"its log alone":     {func(t *testing.T, path string) { check(t, os.Rename(path, path+"-wal")) }, "damaged"},
		"of a newer nacre":  {func(t *testing.T, path string) { statement(t, path, `PRAGMA user_version=99`) }, "upgrade"},
		"another program's": {func(t *testing.T, path string) { statement(t, path, `DROP TABLE memory_entries`) }, "another program's database"},
		"open to others":    {func(t *testing.T, path string) { check(t, os.Chmod(path, 0o666)) }, "chmod 600"},
		"not to be written": {func(t *testing.T, path string) {
			if os.Geteuid() == 0 {
				t.Skip("root may write everything")
			}
			check(t, os.Chmod(path, 0o400))
		}, "cannot be written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.nacre("memory", "import", i.write("in.jsonl", exported("the moon"))).want(t, 0)
			path := i.state("memory", "main.sqlite")
			c.spoil(t, path)
			before := fileText(path)
			i.nacre("memory", "list").want(t, 3, c.want)
			i.nacre("exec", "-q", "--", "true").want(t, 125, c.want)
			if fileText(path) != before {
				t.Error("the file was changed")
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// statement runs SQL on a file past nacre.
func statement(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	check(t, err)
	_, err = db.ExecContext(t.Context(), text)
	check(t, errors.Join(err, db.Close()))
}

// exported is an export of entries with these contents.
func exported(contents ...string) string {
	lines := []string{`{"nacre_memory":1}`}
	for n, content := range contents {
		line, _ := json.Marshal(map[string]any{"entry": map[string]any{"id": fmt.Sprint("e", n), "type": "fact", "content": content, "created_at": "2026-02-18T14:30:00.000Z"}})
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n") + "\n"
}

// D-45: on a full disk nothing is half stored, and the error says so.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("memory", "import", i.write("in.jsonl", exported("the moon"))).want(t, 0)
	script := `mount -t tmpfs -o size=1200k none "$1/memory" && cp "$1/../main.sqlite" "$1/memory/" && chmod 600 "$1/memory/main.sqlite" && shift || exit 77; "$@"; echo "exit $?"; exec "$0" memory list`
	check(t, os.Rename(i.state("memory", "main.sqlite"), filepath.Join(filepath.Dir(i.state()), "main.sqlite")))
	many := make([]string, 2000)
	for n := range many {
		many[n] = fmt.Sprint(n, strings.Repeat(" filling words", 60))
	}
	nacre := filepath.Join(bin, "nacre")
	out, err := i.command("unshare", "-rm", "sh", "-c", script, nacre, i.state(), nacre, "memory", "import", i.write("many.jsonl", exported(many...))).CombinedOutput()
	if exitCode(err) == 77 || errors.Is(err, exec.ErrNotFound) || bytes.Contains(out, []byte("unshare:")) {
		t.Skipf("no user namespaces here: %s", out)
	}
	has(t, string(out), "the disk is full: make room", "exit 1", "the moon")
	hasNo(t, string(out), "filling")
}

// D-42: embeddings that fail are told of and fail no search; what looks like a secret is not sent to them.
func TestEmbeddingsThatFail(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = sent.ReadFrom(r.Body) // what it does not read is not there
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	i := install(t)
	i.nacre("memory", "import", i.write("in.jsonl", exported("the moon is near"))).want(t, 0)
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[plugins.memory]\nembedding_provider = \"openai\"\nembedding_url = %q\nembedding_model = \"m\"\n", server.URL))
	i.nacre("memory", "search", "moons", "password=hunter2hunter2").want(t, 0, "the moon is near", "embeddings:", "ranked by their words")
	has(t, sent.String(), "the moon is near")
	hasNo(t, sent.String(), "hunter2")
	i.write("home/.config/nacre/config.toml", fileText(filepath.Join(i.work, "home/.config/nacre/config.toml"))+"[groups.main]\ntools = [\"memory_*\"]\n")
	r := i.nacre("exec", "--", "ipc", "memory_search", `{"query":"moons"}`)
	r.want(t, 0, "the moon is near", "embeddings:")
}

// D-40: [plugins.memory] is honoured, and what it cannot mean is refused before anything starts.
func TestMemorySettings(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("memory", "import", "--trusted", i.write("in.jsonl", exported("one", "two", "three"))).want(t, 0)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"memory_*\"]\n[plugins.memory]\nmax_brief_entries = 2\n")
	r := i.nacre("exec", "-q", "--", "ipc", "memory_brief", "{}")
	r.want(t, 0, `"brief_count":2`)
	i.write("home/.config/nacre/config.toml", "[plugins.memory]\nstorage_path = \"/tmp\"\n")
	i.nacre("memory", "list").want(t, 2, "XDG_STATE_HOME")
	i.nacre("exec", "-q", "--", "true").want(t, 125, "XDG_STATE_HOME")
	i.write("home/.config/nacre/config.toml", "[plugins.memory]\npurge_superseded_days = 1\n")
	old := strings.Replace(exported("an older one", "a newer one"), `"id":"e0"`, `"id":"e0","superseded_by":"e1"`, 1)
	i.nacre("memory", "import", "--group", "second", i.write("old.jsonl", old)).want(t, 0)
	i.nacre("exec", "-q", "--group", "second", "--", "true").want(t, 0)
	r = i.nacre("memory", "list", "--all", "--group", "second")
	r.want(t, 0, "a newer one")
	hasNo(t, r.stdout, "an older one")
	i.nacre("audit", "show", "--kind", "memory", "--json").want(t, 0, "superseded entries purged", `"count":1`)
}

// D-41: a session's limits hold over every connection to the door, and when the session goes on in a new process.
func TestLimitsOfASession(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"memory_*\"]\n")
	const store = `n=0; while [ $n -lt %d ]; do n=$((n+1)); ipc memory_store '{"type":"fact","content":"a fact"}'; done; true`
	// F-89: the rate of what writes is half of that, and not in the way.
	r := i.nacre("exec", "-q", "--session", "k-one", "--", "sh", "-c", fmt.Sprintf(store, 22))
	r.want(t, 0, "this session has used up its limit: 20 × store")
	if n := strings.Count(r.stdout, `"stored"`); n != 20 {
		t.Errorf("%d were stored, want 20", n)
	}
	again := i.nacre("exec", "-q", "--session", "k-one", "--", "sh", "-c", fmt.Sprintf(store, 2))
	again.want(t, 0, "this session has used up its limit: 20 × store")
	hasNo(t, again.stdout, `"stored"`)
	other := i.nacre("exec", "-q", "--session", "k-two", "--", "sh", "-c", fmt.Sprintf(store, 1))
	other.want(t, 0, `"stored"`)
}

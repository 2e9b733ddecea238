package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// K-26: what a brain's own tools read in the project comes from whoever wrote
// it, unless the operator trusts the project.
func TestWhatABrainReadsInAProjectIsUntrusted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"untrusted": "ask", "trusted": "allow"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],`+
					`"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":5}}`)
			}))
			defer model.Close()
			i := desk(t, "")
			config := fmt.Sprintf("[model]\nbase_url = %q\n", model.URL) + deskTools
			if name == "trusted" {
				config = fmt.Sprintf("trusted_projects = [%q]\n", filepath.Join(i.work, "p")) + config
			}
			i.write("home/.config/nacre/config.toml", config)
			i.program("test-reader", "claude")
			i.write("p/notes.txt", "https://friend.example/box https://evil.example/drop\n")
			i.git("add", "-A")
			i.git("commit", "-q", "-m", "notes")
			i.env = append(i.env, "NACRE_CLAUDE="+filepath.Join(i.work, "claude"), "ANTHROPIC_API_KEY=sk-ant-decoy")
			i.nacre("run", "answer https://friend.example/box", "--brain", "claude", "--project", "p", "--session", "work", "--check", "true").want(t, 0, "merged")
			said, err := os.ReadFile(filepath.Join(i.work, "p/said.txt"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(said), "\n")
			has(t, lines[0], `"verdict":"allow"`) // the task names it
			has(t, lines[1], `"verdict":"`+want+`"`)
			if want == "ask" {
				has(t, lines[1], "values from untrusted text are asked")
			}
		})
	}
}

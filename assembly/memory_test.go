package assembly_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/assembly"
)

// withConfig is a runtime of a new installation with this config.
func withConfig(t *testing.T, config string, env map[string]string) (*assembly.Runtime, error) {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "nacre")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return assembly.Open(t.Context(), assembly.Options{Now: time.Now, Executable: "/nowhere/nacre", Getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}})
}

// D-42: embeddings come from where the config says, and from nowhere else.
func TestEmbeddings(t *testing.T) {
	var asked, authorization string
	answer := `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string
			Input []string
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked, authorization = r.URL.Path+" "+body.Model+" "+strings.Join(body.Input, ","), r.Header.Get("Authorization")
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	rt, err := withConfig(t, "[plugins.memory]\nembedding_provider = \"openai\"\nembedding_url = \""+server.URL+"\"\nembedding_model = \"m\"\nembedding_key_env = \"K\"\n", map[string]string{"K": "k-1"})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := rt.MemorySettings()
	if err != nil || !strings.HasSuffix(settings.Model, " m") {
		t.Fatal(settings, err)
	}
	embed := settings.Embed
	have, err := embed(t.Context(), []string{"a", "b"})
	if err != nil || fmt.Sprint(have) != "[[1 0] [0 1]]" || asked != "/v1/embeddings m a,b" || authorization != "Bearer k-1" {
		t.Errorf("have %v, %v, %q, %q", have, err, asked, authorization)
	}
	for _, bad := range []string{`{}`, `[]`, `{"data":[{"index":0,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"index":9,"embedding":[1]}]}`, `x`} {
		answer = bad
		if have, err := embed(t.Context(), []string{"a", "b"}); err == nil {
			t.Errorf("%s: have %v", bad, have)
		}
	}
	server.Close()
	if _, err := embed(t.Context(), []string{"a"}); err == nil || strings.Contains(err.Error(), "k-1") {
		t.Errorf("have %v", err)
	}
}

// D-40, D-42: [plugins.memory] has the seed's keys; one that is not honoured is refused with what to write.
func TestMemorySettings(t *testing.T) {
	const openAI = "embedding_provider = \"openai\"\n"
	for config, want := range map[string]string{
		"":                             "",
		`embedding_provider = "none"`:  "",
		`embedding_provider = "local"`: "http://127.0.0.1:11434/v1/embeddings nomic-embed-text",
		"embedding_provider = \"local\"\nembedding_url = \"http://localhost:8080/v1\"":               "http://localhost:8080/v1/embeddings nomic-embed-text",
		openAI + "embedding_url = \"https://api.example/v1\"\nembedding_model = \"m\"":               "https://api.example/v1/embeddings m",
		"max_brief_entries = 5\nmax_brief_chars = 800\npurge_superseded_days = 7":                    "",
		openAI + `embedding_url = "https://api.example"`:                                             "error: embedding_model",
		openAI + `embedding_model = "m"`:                                                             "error: embedding_url: name the server",
		openAI + "embedding_url = \"http://api.example\"\nembedding_model = \"m\"":                   "error: https only",
		openAI + "embedding_url = \"ftp://api.example\"\nembedding_model = \"m\"":                    "error: write https://HOST",
		openAI + "embedding_url = \"https://u:p@api.example\"\nembedding_model = \"m\"":              "error: write https://HOST",
		"embedding_provider = \"local\"\nembedding_url = \"https://api.example\"":                    "error: another machine",
		"embedding_provider = \"local\"\nembedding_key_env = \"UNSET\"":                              "error: UNSET",
		"embedding_provider = \"local\"\nembedding_key_env = \"A\"\nembedding_key_file = \"/tmp/x\"": "error: not both",
		`embedding_provider = "voyage"`:                                                              "error: none, local or openai",
		`embedding_model = "m"`:                                                                      "error: embedding_provider",
		`embeddings = "local"`:                                                                       "error: the keys are embedding_key_env",
		`embedding_provider = 1`:                                                                     "error: write a text",
		`storage_path = "/tmp"`:                                                                      "error: XDG_STATE_HOME",
		`purge_superseded_days = 0`:                                                                  "error: from 1 to 36500",
		`purge_superseded_days = "90"`:                                                               "error: from 1 to 36500",
		`max_brief_entries = -1`:                                                                     "error: from 1 to 1000",
		`max_brief_chars = 1.5`:                                                                      "error: from 500 to 100000",
	} {
		rt, err := withConfig(t, "[plugins.memory]\n"+config+"\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		have, err := rt.MemorySettings()
		if wrong, ok := strings.CutPrefix(want, "error: "); ok {
			var bad *assembly.ConfigError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), "[plugins.memory]") {
				t.Errorf("%s: have %v, want %s", config, err, wrong)
			}
			continue
		}
		if err != nil || have.Model != want || (have.Embed == nil) != (want == "") {
			t.Errorf("%s: have %+v, %v", config, have, err)
		}
		if strings.Contains(config, "purge") && (have.PurgeAfter != 7*24*time.Hour || have.BriefEntries != 5 || have.BriefChars != 800) {
			t.Errorf("have %+v", have)
		}
	}
}

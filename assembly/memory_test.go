package assembly_test

import (
	"encoding/json"
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
	rt, err := withConfig(t, "[plugins.memory]\nembeddings = \""+server.URL+"\"\nmodel = \"m\"\nkey_env = \"K\"\n", map[string]string{"K": "k-1"})
	if err != nil {
		t.Fatal(err)
	}
	embed, model, err := rt.Embeddings()
	if err != nil || !strings.HasSuffix(model, " m") {
		t.Fatal(model, err)
	}
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

func TestEmbeddingsConfig(t *testing.T) {
	for config, want := range map[string]string{
		"":                     "",
		`embeddings = "none"`:  "",
		`embeddings = "local"`: "http://127.0.0.1:11434/v1/embeddings nomic-embed-text",
		"embeddings = \"https://api.example/v1\"\nmodel = \"m\"":  "https://api.example/v1/embeddings m",
		`embeddings = "https://api.example"`:                      "error",
		"embeddings = \"http://api.example\"\nmodel = \"m\"":      "error",
		"embeddings = \"ftp://api.example\"\nmodel = \"m\"":       "error",
		"embeddings = \"https://u:p@api.example\"\nmodel = \"m\"": "error",
		`model = "m"`: "error", `embedding = "local"`: "error", `embeddings = 1`: "error",
		"embeddings = \"local\"\nkey_env = \"UNSET\"":                    "error",
		"embeddings = \"local\"\nkey_env = \"A\"\nkey_file = \"/tmp/x\"": "error",
	} {
		rt, err := withConfig(t, "[plugins.memory]\n"+config+"\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		embed, model, err := rt.Embeddings()
		if have := map[bool]string{true: "error", false: model}[err != nil]; have != want || err == nil && (embed == nil) != (want == "") {
			t.Errorf("%s: have %s, %v", config, have, err)
		}
	}
}

package assembly

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/memory"
)

// MemoryConfig is how memories are found beside their words (D-42). Its zero
// value is by their words alone.
type MemoryConfig struct {
	// Embeddings is "none", "local", or the URL of a server that speaks the
	// embeddings API of OpenAI. Content of memories and queries go there.
	Embeddings string `toml:"embeddings"`
	// Model is the model's name there; "local" has a default.
	Model string `toml:"model"`
	// KeyEnv or KeyFile names where the server's key is; none means that it wants none.
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
}

const (
	noEmbeddings    = "none"
	localEmbeddings = "local"
	// localURL and localModel are Ollama's: what "local" means.
	localURL   = "http://127.0.0.1:11434"
	localModel = "nomic-embed-text"
	// embeddingsPath is where the API is below a server's URL.
	embeddingsPath = "/v1/embeddings"
)

func (m MemoryConfig) check() error {
	switch {
	case m.KeyEnv != "" && m.KeyFile != "":
		return errors.New("memory: name key_env or key_file, not both")
	case m.off() && m != (MemoryConfig{Embeddings: m.Embeddings}):
		return errors.New("memory: model, key_env and key_file are of embeddings: say where they come from")
	case m.off():
		return nil
	}
	_, err := m.endpoint()
	if err == nil && m.model() == "" {
		err = errors.New("memory.model: name the model that embeds, such as text-embedding-3-small")
	}
	return err
}

func (m MemoryConfig) off() bool { return m.Embeddings == "" || m.Embeddings == noEmbeddings }

func (m MemoryConfig) model() string {
	if m.Model == "" && m.Embeddings == localEmbeddings {
		return localModel
	}
	return m.Model
}

// endpoint is where texts are sent. What leaves the machine leaves it by TLS.
func (m MemoryConfig) endpoint() (string, error) {
	text := m.Embeddings
	if text == localEmbeddings {
		text = localURL
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("memory.embeddings = %q: write none, local or https://HOST", m.Embeddings)
	}
	address, err := netip.ParseAddr(u.Hostname())
	if local := u.Hostname() == "localhost" || err == nil && address.IsLoopback(); u.Scheme == "http" && !local {
		return "", fmt.Errorf("memory.embeddings = %q: memories go to another machine by https only", m.Embeddings)
	}
	if !strings.HasSuffix(u.Path, "/embeddings") {
		u.Path = path.Join("/", strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1"), embeddingsPath)
	}
	return u.String(), nil
}

// key reads the server's key from where the config says it is.
func (m MemoryConfig) key(getenv func(string) string) (nacre.Secret, error) {
	switch {
	case m.KeyFile != "":
		data, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return nacre.Secret{}, fmt.Errorf("memory.key_file: %w", err)
		}
		return nacre.NewSecret(strings.TrimSpace(string(data))), nil
	case m.KeyEnv != "" && getenv(m.KeyEnv) == "":
		return nacre.Secret{}, fmt.Errorf("memory.key_env: the variable %s is not set", m.KeyEnv)
	case m.KeyEnv != "":
		return nacre.NewSecret(getenv(m.KeyEnv)), nil
	}
	return nacre.Secret{}, nil
}

// Embeddings are what the config says makes vectors of memories, and the name
// of the model that does; nil where nothing does.
func (r *Runtime) Embeddings() (embed func(context.Context, []string) ([][]float32, error), model string, err error) {
	c, err := r.memoryConfig()
	if err != nil || c.off() {
		return nil, "", err
	}
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, "", &ConfigError{err}
	}
	key, err := c.key(r.options.Getenv)
	if err != nil {
		return nil, "", &ConfigError{err}
	}
	return embedder{endpoint, c.model(), key}.embed, endpoint + " " + c.model(), nil
}

// memoryKeys are the keys of [plugins.memory].
func memoryKeys() []string { return []string{"embeddings", "model", "key_env", "key_file"} }

// memoryConfig reads [plugins.memory]: memory has its settings where plugins do (D-40).
func (r *Runtime) memoryConfig() (MemoryConfig, error) {
	var c MemoryConfig
	values := map[string]*string{"embeddings": &c.Embeddings, "model": &c.Model, "key_env": &c.KeyEnv, "key_file": &c.KeyFile}
	for key, value := range r.config.Plugins[memory.Plugin] {
		text, ok := value.(string)
		if !ok || !slices.Contains(memoryKeys(), key) {
			return c, badConfig("[plugins.memory]: %s = %v: the keys are %s, each with a text", key, value, strings.Join(memoryKeys(), ", "))
		}
		*values[key] = text
	}
	if err := c.check(); err != nil {
		return c, &ConfigError{err}
	}
	return c, nil
}

// MemoryMark names an entry in a record, without what it says.
type MemoryMark struct {
	ID string `json:"id"`
	// Digest tells for who has the installation's keys which text it was.
	Digest string `json:"digest"`
	Why    string `json:"why,omitempty"`
}

// MarkMemory names an entry's content by a digest under the installation's keys.
func (r *Runtime) MarkMemory(id, content, why string) MemoryMark {
	mac := hmac.New(sha256.New, r.keys.MAC())
	_, _ = mac.Write([]byte(id + "\x00" + content)) // a hash takes everything
	return MemoryMark{ID: id, Digest: hex.EncodeToString(mac.Sum(nil)), Why: why}
}

// marksInRecord is how many entries one record names.
const marksInRecord = 100

// ChangeMemory does what an operator does to a group's memory: what it is and
// which entries it concerns is durably recorded first, and then that it was done.
func (r *Runtime) ChangeMemory(ctx context.Context, group nacre.Group, what, who string, marks []MemoryMark, do func() error) (err error) {
	chain, err := audit.Open(ctx, audit.Options{Root: r.AuditRoot(), Chain: "memory-" + randomHex()[:16], Keys: r.keys, Now: r.options.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chain.Close(context.WithoutCancel(ctx))) }()
	commit := func(outcome, reason string, detail map[string]any) error {
		raw, err := json.Marshal(detail)
		if err != nil {
			return err
		}
		return chain.Commit(context.WithoutCancel(ctx), nacre.Record{
			Time: r.options.Now(), Kind: nacre.KindMemory, Group: group, Source: "operator", Outcome: outcome, Reason: reason, Detail: raw,
		})
	}
	for some := range slices.Chunk(marks, marksInRecord) {
		if err := commit(what, "", map[string]any{"by": who, "entries": some}); err != nil {
			return err
		}
	}
	if len(marks) == 0 {
		if err := commit(what, "", map[string]any{"by": who}); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return errors.Join(err, commit(what+" failed", err.Error(), map[string]any{"by": who}))
	}
	return commit(what+" done", "", map[string]any{"by": who, "count": len(marks)})
}

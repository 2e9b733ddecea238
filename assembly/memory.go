package assembly

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

// MemorySettings are what [plugins.memory] says: memory has its settings where
// plugins do, under the seed's names (D-40, D-42).
type MemorySettings struct {
	// Embed makes the vectors of Model; nil where entries are found by their words alone.
	Embed func(context.Context, []string) ([][]float32, error)
	Model string
	// PurgeAfter is how long what was superseded is kept; BriefEntries and BriefChars
	// limit what a session is told before it begins. Zero means the seed's.
	PurgeAfter               time.Duration
	BriefEntries, BriefChars int
}

// memoryConfig is [plugins.memory] as it is written.
type memoryConfig struct {
	briefEntries, briefChars, purgeDays int
	// provider is "none", "local", or "openai": a server at url that speaks the
	// embeddings API of OpenAI. Content of memories and queries go there.
	provider, url, model string
	// keyEnv or keyFile names where the server's key is; none means that it wants none.
	keyEnv, keyFile string
}

const (
	noEmbeddings     = "none"
	localEmbeddings  = "local"
	openAIEmbeddings = "openai"
	// localURL and localModel are Ollama's: what "local" means.
	localURL   = "http://127.0.0.1:11434"
	localModel = "nomic-embed-text"
	// embeddingsPath is where the API is below a server's URL.
	embeddingsPath = "/v1/embeddings"
)

// The most that [plugins.memory] may ask for.
const (
	maxBriefEntries = 1000
	leastBriefChars = 500 // less than its headings hold is no brief
	maxBriefChars   = 100_000
	maxPurgeDays    = 36_500
)

func (c *memoryConfig) check() error {
	given := c.url + c.model + c.keyEnv + c.keyFile
	switch {
	case c.keyEnv != "" && c.keyFile != "":
		return errors.New("name embedding_key_env or embedding_key_file, not both")
	case c.off() && given != "":
		return errors.New("embedding_url, _model, _key_env and _key_file are of embeddings: write embedding_provider = \"openai\" or \"local\"")
	case c.off():
		return nil
	case c.provider != localEmbeddings && c.provider != openAIEmbeddings:
		return fmt.Errorf("embedding_provider = %q: write none, local or openai", c.provider)
	case c.provider == openAIEmbeddings && c.url == "":
		return errors.New("embedding_url: name the server that the text of memories is sent to, such as https://api.openai.com")
	case c.provider == openAIEmbeddings && c.model == "":
		return errors.New("embedding_model: name the model that embeds, such as text-embedding-3-small")
	}
	if c.provider == localEmbeddings {
		c.url, c.model = cmp.Or(c.url, localURL), cmp.Or(c.model, localModel)
	}
	_, err := c.endpoint()
	return err
}

func (c *memoryConfig) off() bool { return c.provider == "" || c.provider == noEmbeddings }

// endpoint is where texts are sent. What leaves the machine leaves it by TLS, and
// where "local" is written nothing leaves it.
func (c *memoryConfig) endpoint() (string, error) {
	u, err := url.Parse(c.url)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("embedding_url = %q: write https://HOST", c.url)
	}
	address, err := netip.ParseAddr(u.Hostname())
	here := u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	switch {
	case here:
	case c.provider == localEmbeddings:
		return "", fmt.Errorf("embedding_url = %q is another machine, and embedding_provider is local: write openai to send memories there", c.url)
	case u.Scheme == "http":
		return "", fmt.Errorf("embedding_url = %q: memories go to another machine by https only", c.url)
	}
	if !strings.HasSuffix(u.Path, "/embeddings") {
		u.Path = path.Join("/", strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1"), embeddingsPath)
	}
	return u.String(), nil
}

// key reads the server's key from where the config says it is.
func (c *memoryConfig) key(getenv func(string) string) (nacre.Secret, error) {
	switch {
	case c.keyFile != "":
		data, err := os.ReadFile(c.keyFile)
		if err != nil {
			return nacre.Secret{}, fmt.Errorf("embedding_key_file: %w", err)
		}
		return nacre.NewSecret(strings.TrimSpace(string(data))), nil
	case c.keyEnv != "" && getenv(c.keyEnv) == "":
		return nacre.Secret{}, fmt.Errorf("embedding_key_env: the variable %s is not set", c.keyEnv)
	case c.keyEnv != "":
		return nacre.NewSecret(getenv(c.keyEnv)), nil
	}
	return nacre.Secret{}, nil
}

// MemorySettings reads [plugins.memory]. Every error is a [*ConfigError].
func (r *Runtime) MemorySettings() (MemorySettings, error) {
	c, err := readMemoryConfig(r.config.Plugins[memory.Plugin])
	if err != nil {
		return MemorySettings{}, badConfig("[plugins.memory]: %w", err)
	}
	settings := MemorySettings{PurgeAfter: time.Duration(c.purgeDays) * 24 * time.Hour, BriefEntries: c.briefEntries, BriefChars: c.briefChars}
	if c.off() {
		return settings, nil
	}
	endpoint, err := c.endpoint()
	if err != nil {
		return MemorySettings{}, badConfig("[plugins.memory]: %w", err)
	}
	key, err := c.key(r.options.Getenv)
	if err != nil {
		return MemorySettings{}, badConfig("[plugins.memory]: %w", err)
	}
	settings.Embed, settings.Model = embedder{endpoint, c.model, key}.embed, endpoint+" "+c.model
	return settings, nil
}

func readMemoryConfig(table map[string]any) (*memoryConfig, error) {
	c := &memoryConfig{}
	texts := map[string]*string{
		"embedding_provider": &c.provider, "embedding_url": &c.url, "embedding_model": &c.model, "embedding_key_env": &c.keyEnv, "embedding_key_file": &c.keyFile,
	}
	numbers := map[string]struct {
		to          *int
		least, most int64
	}{
		"max_brief_entries": {&c.briefEntries, 1, maxBriefEntries}, "max_brief_chars": {&c.briefChars, leastBriefChars, maxBriefChars}, "purge_superseded_days": {&c.purgeDays, 1, maxPurgeDays},
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		text, isText := value.(string)
		number, isNumber := value.(int64)
		n, wantsNumber := numbers[key]
		switch to := texts[key]; {
		case key == "storage_path":
			return nil, errors.New("storage_path: memory is kept in nacre's own state folder, out of every sandbox: set XDG_STATE_HOME to have it elsewhere")
		case to == nil && !wantsNumber:
			return nil, fmt.Errorf("%s: the keys are %s", key, strings.Join(slices.Sorted(maps.Keys(texts)), ", ")+", "+strings.Join(slices.Sorted(maps.Keys(numbers)), ", "))
		case to != nil && isText:
			*to = text
		case wantsNumber && isNumber && number >= n.least && number <= n.most:
			*n.to = int(number)
		case wantsNumber:
			return nil, fmt.Errorf("%s = %v: write a number from %d to %d", key, value, n.least, n.most)
		default:
			return nil, fmt.Errorf("%s = %v: write a text", key, value)
		}
	}
	return c, c.check()
}

// openMemory comes before sandbox and brain: no memory, no run (M-01, D-45).
func (r *Runtime) openMemory(ctx context.Context, group nacre.Group, warn func(string)) (*memory.Store, error) {
	c, err := r.MemorySettings()
	if err != nil {
		return nil, err
	}
	store, err := memory.Open(ctx, r.registry.Paths().Memory(group), memory.Options{
		Group: group, Now: r.options.Now, Embed: c.Embed, Model: c.Model, Warn: warn,
		PurgeAfter: c.PurgeAfter, BriefEntries: c.BriefEntries, BriefChars: c.BriefChars,
	})
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, &NotReady{What: "the memory of group " + string(group), err: err}
	}
	return store, nil
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
	chain, closed, err := r.operatorChain(ctx, memoryChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
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

// recordPurge tells how many superseded entries were too old when the memory was opened (D-40).
func (s *sealed) recordPurge(ctx context.Context) error {
	if s.memory.Purged() == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int{"count": s.memory.Purged()})
	if err != nil {
		return err
	}
	return s.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindMemory, Source: sourceCore, Outcome: "superseded entries purged", Detail: detail})
}

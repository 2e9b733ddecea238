package installation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
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
func (inst *Installation) MemorySettings() (MemorySettings, error) {
	c, err := readMemoryConfig(inst.Config.Plugins[memory.Plugin])
	if err != nil {
		return MemorySettings{}, config.Errorf("[plugins.memory]: %w", err)
	}
	settings := MemorySettings{PurgeAfter: time.Duration(c.purgeDays) * 24 * time.Hour, BriefEntries: c.briefEntries, BriefChars: c.briefChars}
	if c.off() {
		return settings, nil
	}
	endpoint, err := c.endpoint()
	if err != nil {
		return MemorySettings{}, config.Errorf("[plugins.memory]: %w", err)
	}
	key, err := c.key(inst.Options.Getenv)
	if err != nil {
		return MemorySettings{}, config.Errorf("[plugins.memory]: %w", err)
	}
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	if err := inst.Config.Egress.Outward(transport, inst.Options.Getenv); err != nil {
		return MemorySettings{}, &config.Error{Err: err}
	}
	settings.Embed, settings.Model = embedder{endpoint, c.model, key, transport}.embed, endpoint+" "+c.model
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

// OpenMemory comes before sandbox and brain: no memory, no run (M-01, D-45).
func (inst *Installation) OpenMemory(ctx context.Context, group nacre.Group, warn func(string)) (*memory.Store, error) {
	return OpenWorkingMemory(ctx, inst, group, memory.Working{}, warn)
}

// OpenWorkingMemory opens the memory of a group as a sub-agent sees it (M-56).
func OpenWorkingMemory(ctx context.Context, inst *Installation, group nacre.Group, working memory.Working, warn func(string)) (*memory.Store, error) {
	c, err := inst.MemorySettings()
	if err != nil {
		return nil, err
	}
	store, err := openMemory(ctx, inst, memory.Options{
		Group: group, Now: inst.Options.Now, Embed: c.Embed, Model: c.Model, Warn: warn, Working: working,
		PurgeAfter: c.PurgeAfter, BriefEntries: c.BriefEntries, BriefChars: c.BriefChars,
	})
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, &NotReady{What: "the memory of group " + string(group), Err: err}
	}
	return store, nil
}

// openMemory opens a group's memory where the installation keeps them.
func openMemory(ctx context.Context, inst *Installation, o memory.Options) (*memory.Store, error) {
	store := inst.Registry.Store()
	if store == nil {
		return memory.Open(ctx, inst.Registry.Paths().Memory(o.Group), o)
	}
	id, err := machineID(inst)
	if err != nil {
		return nil, err
	}
	return memory.OpenOn(ctx, store, id, o)
}

// MemoryGroups are those that have a memory, sorted.
func MemoryGroups(ctx context.Context, inst *Installation) ([]nacre.Group, error) {
	if store := inst.Registry.Store(); store != nil {
		return memory.Groups(ctx, store)
	}
	return MemoryFiles(inst)
}

// MemoryFiles are the groups of which this machine has a memory in a file of its own, sorted.
func MemoryFiles(inst *Installation) ([]nacre.Group, error) {
	file := inst.Registry.Paths().Memory("x")
	entries, err := os.ReadDir(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var groups []nacre.Group
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), filepath.Ext(file))
		if group, err := nacre.ParseGroup(name); ok && err == nil {
			groups = append(groups, group)
		}
	}
	return groups, err
}

// HasMemory tells whether a group has one.
func HasMemory(ctx context.Context, inst *Installation, group nacre.Group) (bool, error) {
	if inst.Registry.Store() == nil {
		return memory.Exists(inst.Registry.Paths().Memory(group))
	}
	groups, err := MemoryGroups(ctx, inst)
	return slices.Contains(groups, group), err
}

// BringMemory puts what this machine has of a group in a file of its own into the store, and
// removes the file. It gives how many entries the store did not have yet.
func BringMemory(ctx context.Context, inst *Installation, group nacre.Group) (entries int, err error) {
	store, err := inst.OpenMemory(ctx, group, nil)
	if err != nil {
		return 0, err
	}
	entries, err = memory.Bring(ctx, store, inst.Registry.Paths().Memory(group))
	return entries, errors.Join(err, store.Close())
}

// MarksInRecord is how many entries one record names.
const MarksInRecord = 100

const (
	embedTimeout = 20 * time.Second
	embedAnswer  = 64 << 20 // bytes
)

// embedder asks a server that speaks the embeddings API of OpenAI.
type embedder struct {
	endpoint, model string
	key             nacre.Secret
	transport       *http.Transport
}

// embed sends texts and gives their vectors. No error holds the key or what the
// server said.
func (e embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": e.model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if !e.key.Empty() {
		request.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	client := &http.Client{Transport: e.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it sends elsewhere") }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read, or given up
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", e.endpoint, response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, embedAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(data) > embedAnswer {
		return nil, fmt.Errorf("%s answers with more than %d MiB", e.endpoint, embedAnswer>>20)
	}
	return vectorsOf(data, len(texts))
}

// vectorsOf puts the answer's vectors in the order of the texts.
func vectorsOf(answer []byte, texts int) ([][]float32, error) {
	var got struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, errors.New("the answer is no list of embeddings")
	}
	vectors := make([][]float32, texts)
	for _, one := range got.Data {
		if one.Index < 0 || one.Index >= texts || vectors[one.Index] != nil {
			return nil, fmt.Errorf("an embedding of text %d of %d", one.Index, texts)
		}
		vectors[one.Index] = one.Embedding
	}
	for i, v := range vectors {
		if v == nil {
			return nil, fmt.Errorf("no embedding of text %d", i)
		}
	}
	return vectors, nil
}

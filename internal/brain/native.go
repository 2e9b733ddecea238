package brain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// The brains whose loop is nacre's own (M-03).
const (
	// AnthropicName is the brain that speaks Anthropic Messages.
	AnthropicName = "anthropic"
	// OpenAIName is the brain that speaks Chat Completions, to OpenAI or to
	// anything that speaks it too: Ollama, LM Studio, vLLM. It speaks Responses
	// where the operator says so.
	OpenAIName = "openai"
)

const (
	nativeVersion = "loop 1"
	nativeSystem  = RoleDir + "/system.md"
	// anthropicModel is asked where nobody names a model.
	anthropicModel = "claude-opus-5-5"
	openaiHelp     = "name one with --model, or as name under [model] in config.toml"
)

// Native is a loop of nacre's own around a model's API. It runs inside the sandbox as the static
// program brain. Its tools are what the sandbox lets them be, and those of the door are calls to
// the door like any other.
type Native struct {
	name    string
	keyFrom string
	model   string
	// keyHelp says how to give the gateway what it has to have.
	keyHelp string
	// keyEnv and urlEnv tell the program its token and where the gateway is.
	keyEnv, urlEnv, urlPath string
	responses               bool
}

// NewAnthropic returns the brain that speaks Anthropic Messages.
func NewAnthropic(o Options) Native {
	return Native{
		name: AnthropicName, keyFrom: o.KeyFrom, model: anthropicModel, keyHelp: cmp.Or(o.KeyHelp, claudeKeyHelp),
		keyEnv: "ANTHROPIC_API_KEY", urlEnv: "ANTHROPIC_BASE_URL",
	}
}

// NewOpenAI returns the brain that speaks Chat Completions, or Responses. It has no model
// that it would ask unnamed.
func NewOpenAI(o Options) Native {
	return Native{
		name: OpenAIName, keyFrom: o.OpenAIFrom, model: o.Model, keyHelp: cmp.Or(o.OpenAIHelp, "export OPENAI_API_KEY=…"),
		keyEnv: "OPENAI_API_KEY", urlEnv: "OPENAI_BASE_URL", urlPath: "/v1", responses: o.Responses,
	}
}

// Name is "anthropic" or "openai".
func (n Native) Name() string { return n.name }

// Detect asks nothing but the options: the program is part of nacre. Without
// the name of a model there is nothing to run, as if it were not installed.
func (n Native) Detect(context.Context) Status {
	s := Status{Installed: n.model != "", SignedIn: n.keyFrom != "", Version: nativeVersion, Path: Program, KeyFrom: n.keyFrom}
	switch {
	case !s.SignedIn:
		s.Why, s.Next = "the model gateway has no key for "+n.name, n.keyHelp
	case !s.Installed:
		s.Why, s.Next = n.name+" has no model to ask", openaiHelp
	}
	return s
}

// Launch refuses a turn whose model could be read as a flag, and one that
// resumes: a loop of nacre's own keeps nothing once its sandbox has ended.
func (n Native) Launch(t Turn) (Launch, error) {
	if t.Model == "" {
		t.Model = n.model
	}
	switch err := t.asks(); {
	case err != nil:
		return Launch{}, fmt.Errorf("%s: %w", n.name, err)
	case t.Model == "":
		return Launch{}, fmt.Errorf("%s: no model is named: %s", n.name, openaiHelp)
	case t.Resume != "":
		return Launch{}, fmt.Errorf("%s: a turn cannot be resumed: start a new one", n.name)
	}
	return Launch{Argv: n.argv(t), Env: n.env(t), Files: nativeFiles(t)}, nil
}

func (n Native) argv(t Turn) []string {
	argv := []string{Program, n.name, "--model", t.Model}
	if n.responses {
		argv = append(argv, "--responses")
	}
	if t.System != "" {
		argv = append(argv, "--notes", nativeSystem)
	}
	if len(t.Skills) > 0 {
		argv = append(argv, "--skills", SkillDir)
	}
	for _, limit := range []struct {
		flag string
		n    int64
	}{
		{"--max-turns", int64(t.MaxTurns)}, {"--max-tokens", t.MaxTokens}, {"--max-seconds", int64(t.MaxTime / time.Second)},
		{"--context", t.Context},
	} {
		if limit.n > 0 {
			argv = append(argv, limit.flag, strconv.FormatInt(limit.n, 10))
		}
	}
	return argv
}

// env leads to the gateway. The token is the session's own.
func (n Native) env(t Turn) []string {
	return []string{
		"HOME=" + Home,
		n.urlEnv + "=http://127.0.0.1:" + strconv.Itoa(nacre.ModelPort) + n.urlPath,
		n.keyEnv + "=" + t.SessionToken.Reveal(),
	}
}

func nativeFiles(t Turn) []File {
	files := t.gateFiles()
	if t.System != "" {
		files = append(files, File{Path: nativeSystem, Data: []byte(t.System), Mode: 0o444})
	}
	return append(files, SkillFiles(t.Skills)...)
}

// Converse hands the task over and passes on what comes of it.
func (n Native) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	return converse(ctx, p, &ownDialect{input: []byte(t.Task)}, emit)
}

// asks refuses a turn that cannot be put to a model.
func (t Turn) asks() error {
	if err := t.validate(); err != nil {
		return err
	}
	switch token := t.SessionToken.Reveal(); {
	case strings.TrimSpace(t.Task) == "":
		return errors.New("the task is empty")
	case token == "" || strings.ContainsAny(token, "\x00\r\n"):
		return errors.New("the session has no token for the model gateway")
	case t.Model != "" && !isModel(t.Model):
		return fmt.Errorf("model %.80q: use a model's name, such as %s", t.Model, anthropicModel)
	}
	return nil
}

package atom

import (
	"errors"
	"fmt"
	"sync"
	"unicode"

	"github.com/BurntSushi/toml"
)

// Parameters are the keys of a task that atoms read. Whether a list is there
// at all is kept apart from its being empty: an empty whitelist allows nothing,
// and one that is missing is an error.
type Parameters struct {
	Role, AgentID string
	// Whitelist and Denylist are nil where the task has no such key.
	Whitelist, Denylist []string
	AllowDepBump        bool
	// MaxDeletes is zero where the task does not say.
	MaxDeletes int
	// Language names the project's, where it shall not be told from its files.
	Language string
	// Commands are the task's own checks, each a shell command; all must pass.
	Commands []string
	// CheckCrates and TestCrates are what cargo is asked to check and to test;
	// empty means the whole workspace.
	CheckCrates, TestCrates []string
	// TestCount is how many tests must pass at least; zero means no such limit.
	TestCount int
	// MaxFileLines and MaxFunctionLines are zero where the task does not say.
	MaxFileLines, MaxFunctionLines int
	// ReportFields are what the agent's report must hold.
	ReportFields []string
}

// taskFile is task.toml as the seed writes it.
type taskFile struct {
	Task struct {
		Role        string `toml:"role"`
		AgentID     string `toml:"agent-id"`
		ParentAgent string `toml:"parent-agent"`
	} `toml:"task"`
	Scope struct {
		Whitelist  []string `toml:"files-whitelist"`
		Denylist   []string `toml:"files-denylist"`
		MaxDeletes int      `toml:"max-deletes"`
	} `toml:"scope"`
	Verification struct {
		CheckCrates      []string `toml:"cargo-check-crates"`
		TestCrates       []string `toml:"cargo-test-crates"`
		TestCount        int      `toml:"test-count-min"`
		AllowDepBump     bool     `toml:"allow-dep-bump"`
		Language         string   `toml:"language"`
		Commands         []string `toml:"commands"`
		MaxFileLines     int      `toml:"max-file-lines"`
		MaxFunctionLines int      `toml:"max-function-lines"`
	} `toml:"verification"`
	Output struct {
		Fields []string `toml:"report-fields-required"`
	} `toml:"output"`
	Body struct {
		Text string `toml:"text"`
	} `toml:"body"`
}

var taskKeys = sync.OnceValue(func() Keys {
	return KeySet(`task.role task.agent-id task.parent-agent scope.files-whitelist scope.files-denylist scope.max-deletes
	verification.cargo-check-crates verification.cargo-test-crates verification.test-count-min verification.allow-dep-bump
	verification.language verification.commands verification.max-file-lines verification.max-function-lines
	output.report-fields-required body.text`)
})

// ParseParameters reads the parameters out of a task's TOML. Unknown keys are errors.
func ParseParameters(data []byte) (Parameters, error) {
	f, meta, err := decodeTask(data)
	if err != nil {
		return Parameters{}, err
	}
	return f.parameters(meta)
}

// decodeTask is the one reader of a task's TOML.
func decodeTask(data []byte) (taskFile, toml.MetaData, error) {
	var f taskFile
	meta, err := Decode(data, &f, taskKeys())
	if err == nil && len(meta.Keys()) == 0 {
		err = errors.New("the task is empty")
	}
	return f, meta, err
}

func (f taskFile) parameters(meta toml.MetaData) (Parameters, error) {
	v := f.Verification
	p := Parameters{
		Role: f.Task.Role, AgentID: f.Task.AgentID, AllowDepBump: v.AllowDepBump, MaxDeletes: f.Scope.MaxDeletes,
		Language: v.Language, Commands: v.Commands, CheckCrates: v.CheckCrates, TestCrates: v.TestCrates, TestCount: v.TestCount,
		MaxFileLines: v.MaxFileLines, MaxFunctionLines: v.MaxFunctionLines, ReportFields: f.Output.Fields,
	}
	if min(f.Scope.MaxDeletes, v.TestCount, v.MaxFileLines, v.MaxFunctionLines) < 0 {
		return Parameters{}, errors.New("a number of the task is below zero: write 0 or more, or leave it out")
	}
	if meta.IsDefined("scope", "files-whitelist") {
		p.Whitelist = append([]string{}, f.Scope.Whitelist...)
	}
	if meta.IsDefined("scope", "files-denylist") {
		p.Denylist = append([]string{}, f.Scope.Denylist...)
	}
	for _, list := range [][]string{p.Whitelist, p.Denylist, p.Commands, p.CheckCrates, p.TestCrates, p.ReportFields} {
		if err := CheckList(list); err != nil {
			return Parameters{}, err
		}
	}
	return p, nil
}

// CheckList holds a list of a file against its limits: entries of one visible
// line each.
func CheckList(list []string) error {
	if len(list) > maxList {
		return fmt.Errorf("a list is over %d entries long", maxList)
	}
	for _, entry := range list {
		blank := true
		for _, r := range entry {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return fmt.Errorf("the entry %q has a character that cannot be seen (%U)", clip(entry), r)
			}
			blank = blank && unicode.IsSpace(r)
		}
		if blank || len(entry) > maxEntry {
			return fmt.Errorf("the entry %q of a list is empty or over %d bytes", clip(entry), maxEntry)
		}
	}
	return nil
}

// Has says whether the task gives a list that an atom needs.
func (p Parameters) Has(list string) bool {
	switch list {
	case "files-whitelist":
		return p.Whitelist != nil
	case "files-denylist":
		return p.Denylist != nil
	}
	return false
}

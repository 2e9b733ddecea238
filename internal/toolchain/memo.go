package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxMemo is the longest memo that is read, in bytes.
	maxMemo = 64 << 10
	// maxAnswers is how many answers are kept.
	maxAnswers = 32
	// noAnswerFor is how long a program that had no answer is not asked again.
	noAnswerFor = time.Hour
)

// Memo remembers what toolchains answered: a program such as pyenv's takes longer to say where it
// lives than a sandbox to start. An answer counts as long as the program, what it was asked, and
// the files that it reads its choice from are the same. What it names is looked at every time.
type Memo struct {
	getenv func(string) string
	file   string
	// system are the system folders, chosen what the version managers' files are now:
	// both are looked at once.
	system func() []nacre.Mount
	chosen func() string

	mu      sync.Mutex
	answers map[string][]string
	asked   map[string][]string // in this process: what is kept
}

// OpenMemo reads the memo. A missing or damaged one remembers nothing.
func OpenMemo(getenv func(string) string, file string, system func() []nacre.Mount) *Memo {
	m := &Memo{getenv: getenv, file: file, system: system, asked: map[string][]string{}}
	m.chosen = sync.OnceValue(func() string { return looks(m.choices()...) })
	f, err := os.Open(file)
	if err != nil {
		return m
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxMemo))
	if err != nil || json.Unmarshal(text, &m.answers) != nil {
		m.answers = nil
	}
	if info, err := f.Stat(); err != nil || time.Since(info.ModTime()) > noAnswerFor {
		maps.DeleteFunc(m.answers, func(_ string, lines []string) bool { return len(lines) == 0 })
	}
	return m
}

// choices are the files from which version managers read what is in use, and
// the folders that change when one more is installed.
func (m *Memo) choices() []string {
	home := m.getenv("HOME")
	or := func(variable, below string) string {
		if dir := m.getenv(variable); dir != "" {
			return dir
		}
		return filepath.Join(home, below)
	}
	return []string{
		m.getenv("GOENV"), filepath.Join(or("XDG_CONFIG_HOME", ".config"), "go/env"), filepath.Join(or("PYENV_ROOT", ".pyenv"), "version"),
		filepath.Join(or("RUSTUP_HOME", ".rustup"), "settings.toml"), filepath.Join(or("NVM_DIR", ".nvm"), "alias/default"),
		filepath.Join(or("VOLTA_HOME", ".volta"), "tools/user/platform.json"), "/.python-version", "/.tool-versions", "/rust-toolchain.toml",
		filepath.Join(or("PYENV_ROOT", ".pyenv"), "versions"), filepath.Join(or("RUSTUP_HOME", ".rustup"), "toolchains"),
		filepath.Join(or("NVM_DIR", ".nvm"), "versions/node"),
	}
}

// key is a digest of all that an answer depends on.
func (m *Memo) key(keep, argv []string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q\n", argv) // a hash takes everything
	for _, name := range append([]string{"HOME", "PATH"}, keep...) {
		_, _ = fmt.Fprintf(h, "%s=%q\n", name, m.getenv(name))
	}
	_, _ = io.WriteString(h, m.chosen()+looks(argv[0]))
	return hex.EncodeToString(h.Sum(nil))
}

// looks says how files look from outside: another text is another file.
func looks(files ...string) string {
	var text strings.Builder
	for _, file := range files {
		real, _ := filepath.EvalSymlinks(file) // "" for none is part of the answer
		if info, err := os.Stat(file); err == nil {
			_, _ = fmt.Fprintf(&text, "%q %q %d %d\n", file, real, info.Size(), info.ModTime().UnixNano())
		}
	}
	return text.String()
}

func (m *Memo) recall(key string) ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines, ok := m.answers[key]
	if ok {
		m.asked[key] = lines
	}
	return lines, ok
}

func (m *Memo) keep(key string, lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[key] = lines
}

// save keeps this process's answers, where one of them is new, beside those that were
// given elsewhere, such as in a terminal with another PATH. One that cannot be kept is
// asked for again.
func (m *Memo) save() {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := false
	for key, lines := range m.asked {
		known, ok := m.answers[key]
		fresh = fresh || !ok || !slices.Equal(known, lines)
	}
	if !fresh {
		return
	}
	all := maps.Clone(m.asked)
	for key, lines := range m.answers {
		if _, ok := all[key]; !ok && len(lines) > 0 && len(all) < maxAnswers { // the age of one that is none is the file's
			all[key] = lines
		}
	}
	text, err := json.Marshal(all)
	if err == nil && len(text) < maxMemo {
		_ = disk.Write(m.file, text, 0o600)
	}
}

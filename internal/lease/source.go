package lease

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease/keystore"
	"github.com/nacre-dev/nacre/internal/lease/oauth"
	"github.com/nacre-dev/nacre/internal/redact"
)

const (
	// maxValue is the longest value, in bytes.
	maxValue = 16 << 10
	// MinValue is the shortest value, in bytes: a shorter one could not be told
	// from other text in the answers of the host that it is for (M-22).
	MinValue = 8
	// maxName is the longest name of a variable, in bytes.
	maxName = 128
)

// Source says where a value is, never what it is. Exactly one place is named: nothing is
// looked for in a second one where the first has no value (M-37).
type Source struct {
	// Env is a variable of the operator's own environment.
	Env string
	// File is an absolute path that only its owner, and perhaps their group, may read.
	File string
	// Command prints the value; it is run without a shell.
	Command []string
	// Keyring is the name of an entry in the key store of the operator's desktop.
	Keyring string
	// Age is the absolute path of a file that age encrypted, and Identity that of the file
	// with the identities it is opened with.
	Age, Identity string
	// Credential is the name of a credential that systemd gives to the service.
	Credential string
	// Agent is the fingerprint of a key in the operator's own ssh-agent, which signs with it
	// and does not give it away.
	Agent string
	// OAuth is the absolute path of a sign-in at an MCP server, which nacre credentials login keeps.
	OAuth string
}

// Store is what kind of place a value is in. The zero value is none.
type Store string

// The stores, by the ends of their keys in a config.
const (
	StoreEnv        Store = "env"
	StoreFile       Store = "file"
	StoreCommand    Store = "cmd"
	StoreKeyring    Store = "keyring"
	StoreAge        Store = "age"
	StoreCredential Store = "credential"
	StoreAgent      Store = "agent"
	StoreOAuth      Store = "oauth"
)

// stores are those that the source names.
func (s Source) stores() (named []Store) {
	for _, place := range []struct {
		store Store
		named bool
	}{
		{StoreEnv, s.Env != ""},
		{StoreFile, s.File != ""},
		{StoreCommand, len(s.Command) > 0},
		{StoreKeyring, s.Keyring != ""},
		{StoreAge, s.Age != "" || s.Identity != ""},
		{StoreCredential, s.Credential != ""},
		{StoreAgent, s.Agent != ""},
		{StoreOAuth, s.OAuth != ""},
	} {
		if place.named {
			named = append(named, place.store)
		}
	}
	return named
}

// Named reports whether a source that may be left out was given.
func (s Source) Named() bool { return len(s.stores()) > 0 }

// Store is the one place that the source names; empty where it names none, or several.
func (s Source) Store() Store {
	if named := s.stores(); len(named) == 1 {
		return named[0]
	}
	return ""
}

// ErrPlaces says which keys name the place of a value.
var ErrPlaces = errors.New("name one place of its value: value_env, value_file, value_cmd, value_keyring, value_age or value_credential, value_oauth for a sign-in, or value_agent for a key of SSH")

// Check refuses a source that names nothing, or several places, or that holds
// what looks like the value itself. No error repeats what was written.
func (s Source) Check() error {
	if holdsSecret(append([]string{s.Env, s.File, s.Keyring, s.Age, s.Identity, s.Credential}, s.Command...)) {
		return errors.New("a place is named here, and what stands here looks like a value itself: move it to a file and name that")
	}
	switch s.Store() {
	case "":
		return ErrPlaces
	case StoreEnv:
		return refuse(!isVariable(s.Env), "value_env is the name of a variable")
	case StoreFile:
		return refuse(!isPath(s.File), "value_file is an absolute path")
	case StoreCommand:
		program := s.Command[0]
		return refuse(program == "" || strings.ContainsRune(program, '/') && !filepath.IsAbs(program), "value_cmd begins with a program's name or absolute path")
	case StoreKeyring:
		return refuse(!isEntry(s.Keyring), "value_keyring is the name of an entry: letters, digits, dots, dashes and underscores")
	case StoreAge:
		return refuse(!isPath(s.Age) || !isPath(s.Identity), "value_age and value_age_identity are absolute paths, and belong together")
	case StoreCredential:
		return refuse(!isEntry(s.Credential), "value_credential is the name of a credential of systemd: letters, digits, dots, dashes and underscores")
	case StoreAgent:
		return refuse(!isFingerprint(s.Agent), "value_agent is the fingerprint of a key, such as \"SHA256:…\": ssh-add -l shows those of your ssh-agent")
	case StoreOAuth:
		return refuse(!isPath(s.OAuth), "value_oauth is the absolute path of the file that nacre credentials login wrote")
	}
	return ErrPlaces
}

func refuse(wrong bool, why string) error {
	if wrong {
		return errors.New(why)
	}
	return nil
}

func isPath(s string) bool { return filepath.IsAbs(s) && !strings.ContainsRune(s, 0) }

// isEntry accepts a plain name, which leads nowhere else.
func isEntry(s string) bool {
	return s != "" && s[0] != '.' && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// isFingerprint accepts what ssh-add -l shows of a key.
func isFingerprint(s string) bool {
	digest, ok := strings.CutPrefix(s, "SHA256:")
	raw, err := base64.RawStdEncoding.DecodeString(digest)
	return ok && err == nil && len(raw) == sha256.Size
}

func holdsSecret(texts []string) bool {
	engine := redact.New()
	for _, text := range texts {
		if _, found := engine.String(text); found {
			return true
		}
	}
	return false
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(s) <= maxName
}

// String says where the value is, for a person.
func (s Source) String() string {
	switch s.Store() {
	case StoreEnv:
		return "the variable " + s.Env
	case StoreFile:
		return "the file " + s.File
	case StoreCommand:
		return "the command " + s.Command[0]
	case StoreKeyring:
		return "the key store's entry " + s.Keyring
	case StoreAge:
		return "the age file " + s.Age
	case StoreCredential:
		return "systemd's credential " + s.Credential
	case StoreAgent:
		return "your ssh-agent's key " + s.Agent
	case StoreOAuth:
		return "the sign-in " + s.OAuth
	}
	return "nowhere"
}

// Read gives the value without the line end after it. An error says what to
// do, and nothing of the value.
func (s Source) Read(ctx context.Context, getenv func(string) string) (nacre.Secret, error) {
	if err := s.Check(); err != nil {
		return nacre.Secret{}, err
	}
	value, err := s.read(ctx, getenv)
	if err != nil {
		return nacre.Secret{}, err
	}
	if err := CheckValue(value); err != nil {
		return nacre.Secret{}, fmt.Errorf("%s: %w", s, err)
	}
	return value, nil
}

// ReadRoot gives what credentials are minted with, which may have several lines, as a
// private key has. An error says nothing of it.
func (s Source) ReadRoot(ctx context.Context, getenv func(string) string) (nacre.Secret, error) {
	if err := s.Check(); err != nil {
		return nacre.Secret{}, err
	}
	value, err := s.read(ctx, getenv)
	if err == nil && len(value.Reveal()) > maxValue {
		err = fmt.Errorf("%s: the value is longer than %d bytes", s, maxValue)
	}
	return value, err
}

func (s Source) read(ctx context.Context, getenv func(string) string) (nacre.Secret, error) {
	text, err := s.text(ctx, getenv)
	text = strings.TrimRight(text, "\r\n")
	switch {
	case err != nil:
		return nacre.Secret{}, fmt.Errorf("%s: %w", s, err)
	case text == "":
		return nacre.Secret{}, fmt.Errorf("%s is empty or missing: put the value there", s)
	}
	return nacre.NewSecret(text), nil
}

// text is what stands where the value is.
func (s Source) text(ctx context.Context, getenv func(string) string) (string, error) {
	switch s.Store() {
	case StoreEnv:
		return getenv(s.Env), nil
	case StoreFile:
		return readFile(s.File)
	case StoreCommand:
		return s.run(ctx)
	case StoreKeyring:
		value, err := keystore.Of(getenv).Read(ctx, s.Keyring)
		return value.Reveal(), err
	case StoreAge:
		return s.decrypt()
	case StoreCredential:
		path, err := s.given(getenv)
		if err != nil {
			return "", err
		}
		return readFile(path)
	case StoreOAuth:
		token, err := oauth.Store{Path: s.OAuth}.Token(ctx)
		return token.Reveal(), s.again(err)
	case StoreAgent:
		return "", errors.New("an ssh-agent gives no value: it is for scheme = \"ssh\"")
	}
	return "", ErrPlaces
}

// again says how a person signs in anew, where that is what is missing.
func (s Source) again(err error) error {
	if !errors.Is(err, oauth.ErrSignIn) {
		return err
	}
	return fmt.Errorf("%w: %s", err, s.login())
}

// login is the command by which a person signs in.
func (s Source) login() string {
	server := "URL"
	if l, lost := (oauth.Store{Path: s.OAuth}).Load(); lost == nil {
		server = l.Server
	}
	return "nacre credentials login " + strings.TrimSuffix(filepath.Base(s.OAuth), SignInSuffix) + " --url " + server
}

// SignIn says why a person has to sign in before there is a value, and by which command; nil
// where nobody has to. It asks no server.
func (s Source) SignIn(now func() time.Time) (command string, why error) {
	if s.Store() != StoreOAuth {
		return "", nil
	}
	if why = (oauth.Store{Path: s.OAuth, Now: now}).Needed(); !errors.Is(why, oauth.ErrSignIn) {
		return "", nil // what else is wrong with the file, doctor says
	}
	return s.login(), why
}

// SignInSuffix ends the names of the files of sign-ins.
const SignInSuffix = ".oauth"

// BoundTo refuses a place that the value was not made for: the token of a sign-in is sent to
// the server alone that it is for (M-35). host may have a port.
func (s Source) BoundTo(host string) error {
	if s.Store() != StoreOAuth {
		return nil
	}
	l, err := oauth.Store{Path: s.OAuth}.Load()
	if err != nil {
		return s.again(err)
	}
	if bound := l.Host(); strings.TrimSuffix(host, ":443") != strings.TrimSuffix(bound, ":443") {
		return fmt.Errorf("the sign-in is for %s, and its token is not sent to %.80q", bound, host)
	}
	return nil
}

// given is the file of a credential that systemd gave to the service that this is.
func (s Source) given(getenv func(string) string) (string, error) {
	dir := getenv("CREDENTIALS_DIRECTORY")
	if !filepath.IsAbs(dir) {
		return "", errors.New("CREDENTIALS_DIRECTORY is not set: run nacre as a service of systemd with LoadCredential= or LoadCredentialEncrypted=")
	}
	return filepath.Join(dir, s.Credential), nil
}

func hasUnprintable(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// The rights that nobody else has: to a file with a value, and to one that is encrypted.
const (
	readOrWritten fs.FileMode = 0o026
	written       fs.FileMode = 0o022
)

// readFile reads a small regular file that others may not read.
func readFile(name string) (string, error) {
	data, err := readRegular(name, maxValue+2, readOrWritten)
	return string(data), err
}

// readRegular reads the beginning of a regular file that others have no such rights to.
func readRegular(name string, limit int64, others fs.FileMode) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused, and not waited for
	if err != nil {
		return nil, bare(err)
	}
	defer func() { _ = file.Close() }() // only read from
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, bare(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Mode().Perm()&others != 0:
		return nil, errors.New("others may read or write it: chmod 600")
	}
	data, err := io.ReadAll(io.LimitReader(file, limit))
	return data, bare(err)
}

// bare leaves the path out, which the caller says.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

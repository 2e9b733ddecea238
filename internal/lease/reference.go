package lease

import "github.com/nacre-dev/nacre/internal/posture"

// Value says where a secret value is, never what it is (M-32, M-37).
type Value struct {
	ValueEnv         string   `toml:"value_env"`
	ValueFile        string   `toml:"value_file"`
	ValueCmd         []string `toml:"value_cmd"`
	ValueKeyring     string   `toml:"value_keyring"`
	ValueAge         string   `toml:"value_age"`
	ValueAgeIdentity string   `toml:"value_age_identity"`
	ValueCredential  string   `toml:"value_credential"`
	ValueAgent       string   `toml:"value_agent"`
	ValueOAuth       string   `toml:"value_oauth"`
}

// Source is where the value is read from.
func (v Value) Source() Source {
	return Source{
		Env: v.ValueEnv, File: v.ValueFile, Command: v.ValueCmd, Keyring: v.ValueKeyring,
		Age: v.ValueAge, Identity: v.ValueAgeIdentity, Credential: v.ValueCredential, Agent: v.ValueAgent, OAuth: v.ValueOAuth,
	}
}

// Uses are what a credential may be used for: requests, whose methods are GET and HEAD where none are
// named; or clones and fetches of repositories, and pushes to refs.
type Uses struct {
	Methods      []string `toml:"methods"`
	Paths        []string `toml:"paths"`
	Repositories []string `toml:"repositories"`
	Push         []string `toml:"push"`
	// Power, where one is named, has to be unlocked first: runs alone have the credential then.
	Power string `toml:"power"`
	// PlaceholderEnv is a variable that stands inside for the value, for programs that ask nothing of a
	// host before there is one. What stands in it is worth nothing anywhere.
	PlaceholderEnv string `toml:"placeholder_env"`
	SSH
}

const (
	// ForcePush is the power of a credential with which refs may be forced, where it names no other.
	ForcePush = "force-push"
	// MaxPower is how long the name of a power is, in bytes.
	MaxPower = 40
)

// Locked is the power that a session needs for the credential; empty where it needs none (M-51).
func (u Uses) Locked() string {
	if u.Power == "" && (posture.Git{Push: u.Push}).Forces() {
		return ForcePush
	}
	return u.Power
}

// AWSKey says where the id and the token of an AWS key are.
type AWSKey struct {
	AccessKeyEnv     string `toml:"access_key_env"`
	AccessKeyFile    string `toml:"access_key_file"`
	SessionTokenEnv  string `toml:"session_token_env"`
	SessionTokenFile string `toml:"session_token_file"`
}

// AccessKey is where the id of an AWS key is read from.
func (k AWSKey) AccessKey() Source {
	return Source{Env: k.AccessKeyEnv, File: k.AccessKeyFile}
}

// SessionToken is where the token of a temporary AWS key is read from.
func (k AWSKey) SessionToken() Source {
	return Source{Env: k.SessionTokenEnv, File: k.SessionTokenFile}
}

package config

import (
	"fmt"

	"github.com/nacre-dev/nacre"
)

// Agent is an agent of the operator's own with a terminal interface, for `nacre agent` (U-01).
type Agent struct {
	// Command is the program, absolute or on the PATH, and its first arguments.
	Command []string `toml:"command"`
	// Folders are bound read-only where they are, such as the agent's modules.
	Folders []string `toml:"folders"`
	// Env is added to its environment, without secrets; Keep is the data of its home that lasts.
	Env  map[string]string `toml:"env"`
	Keep []string          `toml:"keep"`
}

// Serving is what `nacre serve` listens to and whose messages are whose.
type Serving struct {
	// Serve bounds what `nacre serve` does for each group.
	Serve Serve    `toml:"serve"`
	Store struct { // Store names whose it is, and the variable with the address of what nodes share, never the address.
		URLEnv       string `toml:"url_env"`
		Installation string `toml:"installation"`
	} `toml:"store"`
	Web struct { // Web is what the page of `nacre web` is known by to browsers (M-49).
		Port  uint16   `toml:"port"`
		Hosts []string `toml:"hosts"`
	} `toml:"web"`
	// Routes say which group a message belongs to (D-33).
	Routes []Route `toml:"route"`
	// Events are the endpoints for outsiders (D-32).
	Events Events `toml:"events"`
}

func (c Config) checkAgents() error {
	for name, a := range c.Agents {
		if _, err := nacre.ParsePluginName(name); err != nil {
			return fmt.Errorf("[agents.%s]: use 1–64 lower-case letters, digits, _ or - for the name", name)
		}
		if len(a.Command) == 0 || a.Command[0] == "" {
			return fmt.Errorf("[agents.%s]: write command = [\"PROGRAM\", …]", name)
		}
	}
	return nil
}

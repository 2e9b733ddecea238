package lease

import (
	"errors"
	"fmt"
	"strings"
)

// CheckVariable refuses what is no name of a variable, and does not repeat it: whoever
// wrote a value in place of its name has written a secret there.
func CheckVariable(key, name string) error {
	if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
		return fmt.Errorf("%s: write the name of a variable in capitals, such as NACRE_STORE_URL: the value stands in the variable, never here", key)
	}
	return nil
}

// CheckPlaceholder refuses a placeholder that could not stand inside; added says that the proxy adds the credential.
func (u Uses) CheckPlaceholder(added bool) error {
	if u.PlaceholderEnv != "" && (!added || !IsInside(u.PlaceholderEnv)) {
		return errors.New("placeholder_env is a variable's name in capital letters, none that programs are started with, of a credential that the proxy adds")
	}
	return nil
}

// IsInside reports whether a credential may stand inside in a variable: those that change
// what runs are refused.
func IsInside(s string) bool {
	switch s {
	case "PATH", "HOME", "IFS", "ENV", "BASH_ENV", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY":
		return false
	}
	return s != "" && len(s) <= 64 && !strings.HasPrefix(s, "LD_") && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && (s[0] < '0' || s[0] > '9')
}

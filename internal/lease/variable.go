package lease

import (
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

package atom

import (
	"fmt"
	"regexp"
)

// WrongType says what a value of another type than its key has is, and what it has to be. The decoder says that in
// the words of Go. Any other error is returned as it is.
func WrongType(err error) error {
	found := regexp.MustCompile(`^toml: line (\d+) \(last key "(.*)"\): incompatible types: TOML value has type (\S+); destination has type (\S+)`).FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	is, wanted := map[string]string{
		"string": "a text", "int64": "a number", "float64": "a number with a fraction", "bool": "true or false", "time.Time": "a time",
		"[]any": "a list", "map[string]any": "a table", "[]map[string]any": "a list of tables",
	}[found[3]], map[string]string{
		"string": `a text, such as "a"`, "integer": "a whole number, such as 3", "float": "a number, such as 1.5", "boolean": "true or false, without quotes",
		"slice": `a list, such as ["a"]`, "map": `a table, such as { a = "b" }`,
	}[found[4]]
	if is == "" || wanted == "" {
		return err
	}
	return fmt.Errorf("line %s: %s is %s, and has to be %s", found[1], found[2], is, wanted)
}

package redact

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed issuers.txt
var issuers string

// classNames and restNames are how issuers.txt calls them.
var (
	classNames = [...]string{alnum: "alnum", word: "word", dashed: "dashed", dotted: "dotted", base64ed: "base64ed", hexed: "hexed", value: "value", tilded: "tilded", digit: "digit", solid: "solid", crypted: "crypted"}
	restNames  = [...]string{anything: "anything", digits: "digits", bothCases: "bothCases", uuid: "uuid", bot: "bot"}
)

// forms are the issuers' published prefixes, in the order of issuers.txt.
var forms = sync.OnceValue(func() []form {
	all, err := readForms(issuers)
	if err != nil {
		panic("redact: issuers.txt: " + err.Error()) // it is a part of the program
	}
	return all
})

// readForms reads lines of a class, a least length, what must hold for the rest, and
// prefixes.
func readForms(text string) (all []form, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) < 4 {
			return nil, fmt.Errorf("%q: a line is a class, a length, a rest and prefixes", line)
		}
		of, rested := slices.Index(classNames[:], words[0]), slices.Index(restNames[:], words[2])
		least, err := strconv.Atoi(words[1])
		if of < 0 || rested < 0 || err != nil {
			return nil, fmt.Errorf("%q: there is no such class, length or rest", line)
		}
		for _, exact := range words[3:] {
			exact = strings.ReplaceAll(exact, `\x20`, " ")
			all = append(all, form{strings.ToLower(exact), exact, class(of), least, rest(rested)})
		}
	}
	return all, nil
}

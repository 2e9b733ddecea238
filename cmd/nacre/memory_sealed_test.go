package main_test

import (
	"strings"
	"testing"
)

// K-27: an address that an agent was shown as a word is sealed in the memory that it stores. A later
// session finds it, sees a word of its own, and can use it.
func TestMemorySealsPersonalValues(t *testing.T) {
	t.Parallel()
	i := desk(t, strings.Replace(deskTools, `["rows"`, `["memory_*", "rows"`, 1))
	shown := i.said(i.plays("first", "who is there?", `ipc say '{"text":"ann@corp.example"}' | tee word; ipc memory_store '{"type":"fact","content":"Ann is at '$(grep -o 'email:[0-9]*-[a-z2-7]*' word | head -1)'"}'`), "first")
	word := aWord.FindString(strings.Join(shown, ""))
	if word == "" {
		t.Fatalf("no word for an address in %q", shown)
	}
	listed := i.nacre("memory", "list", "--json").stdout
	has(t, listed, "email:sealed-")
	hasNo(t, listed, word)
	hasNo(t, listed, "@")
	later := i.said(i.plays("later", "where is she?", `ipc memory_search '{"query":"Ann"}' | tee found; ipc say '{"text":"'$(grep -o 'email:[0-9]*-[a-z2-7]*' found | head -1)'"}'`), "later")
	own := aWord.FindString(strings.Join(later, ""))
	if own == "" || own == word || strings.Contains(strings.Join(later, ""), "sealed") {
		t.Errorf("a later session sees %q, and the first one had %s", later, word)
	}
}

// K-27: the operator may let every group see a kind, or a hint of it, in what one tool returns.
func TestAToolIsAllowedToShowPersonalValues(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+"[tools.say]\npii = [\"email\", \"phone:hint\"]\n")
	said := i.play("who is there?", `ipc say '{"text":"ann@corp.example, +49 30 1234 5678"}'`)
	has(t, said[0], "ann@corp.example", "(…78)")
	hasNo(t, said[0], "1234 5678")
}

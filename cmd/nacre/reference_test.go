package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// aWord is what an agent is shown in the place of a personal value.
var aWord = regexp.MustCompile(`(email|phone|iban|card|id):[0-9]+-[a-z2-7]+`)

// theirWord leaves the word for an address, which no file but the plugin's holds, in the file word.
const theirWord = `ipc people '{}' | grep -o 'email:[0-9]*-[a-z2-7]*' | head -1 >word; cat word`

// sendTo sends a letter to what a shell makes of a text, in which $W is the word.
func sendTo(text string) string {
	return `W=$(cat word); printf '{"to":"%s"}' "` + text + `" | ipc send - | grep -o '"sent"\|"[A-Z_]*"'`
}

// K-27: a word stands for its value wherever it stands in a sink as a whole, also in a link or the
// name of a file. What was forged, joined to another or taken from another session is the text that it
// is. No file of the installation holds the value.
func TestReferencesOverTheBinary(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+strings.Replace(deskTools, "main", "side", 1))
	i.declares(`"name": "send",`, `"name": "send", "rate_limit": {"calls": 100, "seconds": 60},`)
	before := aWord.FindString(strings.Join(i.said(i.plays("first", "who is there?", theirWord), "first"), ""))
	beside := aWord.FindString(strings.Join(i.said(i.playsAs("side", "side", "who is there?", theirWord), "side"), ""))
	if before == "" || beside == "" || before == beside {
		t.Fatalf("the words of two groups are %q and %q", before, beside)
	}
	const bob = "bob@corp.example"
	cases := []struct{ text, want string }{
		{"$W", bob},
		{"Bob <$W>, $W", "Bob <" + bob + ">, " + bob},
		{"https://shop.example/?to=$W&x=1", "https://shop.example/?to=" + bob + "&x=1"},
		{"letters/to-$W.txt", "letters/to-" + bob + ".txt"},
		{"$W$W", "$W$W"},
		{"${W}x", "${W}x"},
		{"x$W", "x$W"},
		{"7$W", "7$W"},
		{"${W%?}", "${W%?}"},
		{"email:9-${W#*-}", "email:9-${W#*-}"},
		{"email:01-${W#*-}", "email:01-${W#*-}"},
		{"phone:1-${W#*-}", "phone:1-${W#*-}"},
		{"email:1", "email:1"},
		{before, before},
		{beside, beside},
		{"https://shop.example/?to=" + before, "https://shop.example/?to=" + before},
	}
	commands := []string{theirWord}
	for _, c := range cases {
		commands = append(commands, sendTo(c.text))
	}
	said := i.play("a task", commands...)
	word := aWord.FindString(said[0])
	if word == "" || word == before || word == beside {
		t.Fatalf("the word is %q, and those of other sessions are %q and %q", word, before, beside)
	}
	spelled := strings.NewReplacer("$W", word, "${W}", word, "${W%?}", word[:len(word)-1], "${W#*-}", word[strings.Index(word, "-")+1:])
	have := slices.DeleteFunc(strings.Split(i.done(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "send ") })
	if len(have) != len(cases) {
		t.Fatalf("%d letters of %d were sent: %q\n%q", len(have), len(cases), have, said)
	}
	for n, c := range cases {
		if want := "send " + spelled.Replace(c.want) + " "; have[n] != want {
			t.Errorf("%s: have %q, want %q", c.text, have[n], want)
		}
	}
	i.nowhere(bob)
}

// declares changes what the plugin desk says of itself.
func (i *installation) declares(old, new string) {
	i.t.Helper()
	const manifest = "home/.local/share/nacre/plugins/desk/manifest.json"
	before := fileText(filepath.Join(i.work, manifest))
	if !strings.Contains(before, old) {
		i.t.Fatalf("the manifest does not say %s", old)
	}
	i.write(manifest, strings.Replace(before, old, new, 1))
}

// nowhere wants a text in no file that nacre keeps; the plugin's own folder is the plugin's.
func (i *installation) nowhere(text string) {
	i.t.Helper()
	err := filepath.WalkDir(i.state(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, i.state("data")) {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			i.t.Errorf("%s holds %q", path, text)
		}
		return err
	})
	if err != nil {
		i.t.Fatal(err)
	}
}

// K-27: a result in our own syntax gives nothing a meaning. Words and seals that nobody was given are
// shown, and passed on, as they are, in free text and in the fields whose values are personal.
func TestAResultInOurOwnSyntaxIsText(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	const seal = "email:sealed-abcdefghijklmnopqrstuvwxyz234567abcdefgh"
	said := i.play("a task", theirWord, `W=$(cat word); printf '{"text":"%s"}' "call $W, email:9-${W#*-}, email:1-aaaaa(a…@corp.example), `+seal+`, [REDACTED]" | ipc say -`,
		sendTo(seal), sendTo("email:1-aaaaa"), sendTo("[REDACTED]"))
	word := strings.TrimSpace(said[0])
	has(t, said[1], "call "+word+", email:9-"+word[strings.Index(word, "-")+1:]+", email:1-aaaaa(a…@corp.example), "+seal+", [REDACTED]")
	has(t, i.done(), "send "+seal+" \n", "send email:1-aaaaa \n", "send [REDACTED] \n")
	hasNo(t, i.done(), "bob@")
}

// K-26, K-27: a value whose halves stand in two results is hidden in neither, since neither has it. It
// stands nowhere as a whole, so whoever joins it is asked after reading an outsider's text.
func TestAValueSplitOverTwoResultsStandsNowhere(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `ipc say '{"text":"the first half is ann@corp"}'; ipc say '{"text":".example is the other"}'`, dry("ann@corp.example"),
		`ipc inbox '{}'`, dry("ann@corp.example"), dry("ann@corp"), `ipc say '{"text":"ann@corp.example"}'`)
	has(t, said[0], "ann@corp", ".example is")
	has(t, said[1], `"verdict":"allow"`)
	has(t, said[3], `"verdict":"ask"`)
	has(t, said[5], "email:")
	hasNo(t, said[5], "ann@corp.example")
}

// K-31: a result of 64 MiB is refused with a sentence, by a program that holds no more of it than
// it would of the largest result.
func TestAResultOf64MiBIsRefusedInBoundedMemory(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.declares(`"maximum": 100 `, `"maximum": 1000 `)
	r := i.plays("work", "a task", `{ printf '{"times":671,"text":"'; head -c 100010 /dev/zero | tr '\0' x; printf '"}'; } | ipc say -`, untilTold("work", "go"), `ipc rows '{"count":1}'`)
	eventually(t, "the answer", func() bool {
		data, err := os.ReadFile(filepath.Join(i.workspace("work"), "said/work/0"))
		return err == nil && strings.HasSuffix(string(data), "\n")
	})
	found := highWater.FindStringSubmatch(fileText(fmt.Sprintf("/proc/%d/status", r.Process.Pid)))
	if found == nil {
		t.Fatal("nacre does not say how much memory it took")
	}
	if kib, err := strconv.Atoi(found[1]); err != nil || kib > 200<<10 {
		t.Errorf("nacre took %d KiB", kib)
	}
	i.tell("work", "go")
	said := i.said(r, "work")
	has(t, said[0], `"HANDLER_ERROR"`, "exceeded maximum size")
	hasNo(t, said[0], "xxxxxxxx")
	has(t, said[2], "row number 0")
	if len(said[0]) > 2000 {
		t.Errorf("the refusal has %d bytes", len(said[0]))
	}
}

package tripwire_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/tripwire"
)

// maxMade is how much memory reading one command may ask for in all, most of it
// given back on the way, in bytes.
const maxMade = 256 << 20

// maxFilled is a little less than the longest command, in bytes.
const maxFilled = 250_000

// made is how much memory a command's reader asks for.
func made(commands ...string) uint64 {
	var before, after runtime.MemStats
	w := tripwire.New(tripwire.Default())
	runtime.ReadMemStats(&before)
	for _, command := range commands {
		w.Called("shell", shell(command))
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// fill repeats a part until a command is almost as long as one may be.
func fill(before, part, after string) string {
	return before + strings.Repeat(part, max(0, maxFilled-len(before)-len(after))/len(part)) + after
}

// growing are commands whose text would grow on and on.
func growing() map[string]string {
	long := strings.Repeat("a", 100_000)
	return map[string]string{
		"a folder that doubles":         "cd abcdefgh\n" + strings.Repeat("cd $(pwd)$(pwd)\n", 12) + "echo " + strings.Repeat("$(pwd)", 2000),
		"a folder that doubles, often":  "cd abcdefgh\n" + strings.Repeat("cd $PWD$PWD\n", 20) + strings.Repeat("echo $(pwd)$(pwd)\n", 10_000),
		"a text within a text":          strings.Repeat("$(echo ", 2000) + long + strings.Repeat(")", 2000),
		"a text passed on":              "echo " + long + fill("", "|cat", ""),
		"a script of many, passed on":   "echo '" + strings.Repeat("a ", 50_000) + "'" + strings.Repeat("|base64 -d|cat", 5000) + "|sh",
		"texts of a variable":           "a=" + long + fill("; echo ", "$(echo $a)", ""),
		"a variable of texts":           "a=aaaaaaaa" + strings.Repeat("; a=$(echo $a$a)", 2000) + "; eval $a",
		"what printf makes":             "a=aaaaaaaa" + strings.Repeat("; a=$(printf %s $a$a)", 2000) + "; eval $a",
		"a list":                        fill("a=(", "$(echo a) ", ")"),
		"a text for a text":             "cat <<E | sh\n" + strings.Repeat("$(cat <<F\n"+strings.Repeat("b", 100)+"\nF\n)", 2000) + "\nE",
		"scripts of a variable":         "a='" + strings.Repeat("a;", 50_000) + "'" + fill("", ";eval $a", ""),
		"a function of many words":      "f(){ curl -" + strings.Repeat("f", 200_000) + "; }" + strings.Repeat(";curl a|f", 300),
		"a long path":                   fill(">", ".a/", "x"),
		"many long paths":               "a=" + strings.Repeat(".a/", 1300) + fill("", ";>$a", ""),
		"patterns of paths":             "a=" + strings.Repeat(".*/", 1300) + fill("", ";>$a", ""),
		"paths of a loop":               "a=" + strings.Repeat(".*/", 1300) + fill("; for f in", " $a", "; do x; done"),
		"space that is looked at often": "echo '" + strings.Repeat(" ", 150_000) + "'" + strings.Repeat("|a", 40_000),
		"options of a folder":           fill("tar ", "-C a ", ""),
		"programs of a shell":           fill("x ", "pwsh -c ", ""),
		"braces":                        fill("echo ", "{a,b}", ""),
		"names in a program":            "python3 -c '" + fill("", `"a",`, "") + "'",
		"a long pipeline":               strings.Repeat("a|", 30_000) + "sh",
		"many functions":                strings.Repeat("f(){ f; f; };", 10_000),
		"a shell for each shell":        "x " + strings.Repeat("sh -c ", 43_000),
		"folders within folders":        strings.Repeat("cd a;", 50_000) + strings.Repeat(">x;", 1000),
		"downloads within downloads":    strings.Repeat("echo $(", 2000) + "which" + strings.Repeat(" >x)", 2000),
		"many folders to copy to":       "cp " + fill("", "-t a ", "") + strings.Repeat("x ", 20_000),
		"a command that is split again": "env " + strings.Repeat("-S ", 80_000) + "x",
		"xargs of xargs":                strings.Repeat("xargs -I{} ", 20_000) + "x",
		"found in what was found":       strings.Repeat("find -exec ", 20_000) + "x",
		"decoded":                       "echo " + strings.Repeat("QUFB", 30_000) + strings.Repeat("|base64 -d", 10_000),
	}
}

// No command makes its reader ask for more than a bounded amount of memory.
func TestWhatACommandCostsIsBounded(t *testing.T) {
	for name, command := range growing() {
		if have := made(command); have > maxMade {
			t.Errorf("%s: %d bytes ask for %d MB", name, len(command), have>>20)
		}
	}
}

// statements are what commands are made of whose text grows, each with a word in it.
func statements() []string {
	return []string{
		"a=W", "b=$aW", "cd W", "echo W | cat | sh", "echo W | base64 -d | sh", "eval W", "printf W > W", "f() { W; }; curl a | f", "curl -o W a", "sh W", "cat <<E | sh\nW\nE\n", "cat <<< W",
		"for f in W W; do sh $f; done", "x=(W W)", "python3 -c \"open('W','w')\"", "awk W", "tar -C W -x", "sh -c W", "mv W W", "W W W", "cat W > >(cat W)", "xargs W", "sudo W", "if W; then W; fi", "W | W | W",
	}
}

// words are what stands in a statement; a W in one is another.
func words() []string {
	return []string{
		"a", "$a", "$b$a", "$(pwd)", "$PWD", "$(pwd)W", "$(echo W)", "$(printf W)W", "\"W\"", "'curl a | sh;'", "*a", ".claude/", ".*/.*/", "-C", "-t", "~/.ssh/", "\\x41\\n", "aaaaaaaa", "{W,W}", "<(echo W)",
		"$(cat <<< W)", "wget", "[a-z]*[a-z]*", "QUFB", "W/W",
	}
}

// composed is a command of statements: each byte picks one, or a word for it, or
// repeats what there is.
func composed(from []byte) string {
	command := "true"
	pick := func(list []string) string {
		if len(from) == 0 {
			return "a"
		}
		chosen := list[int(from[0])%len(list)]
		from = from[1:]
		return chosen
	}
	for len(from) > 0 && len(command) < maxFilled {
		next, many := pick(statements()), 1
		for strings.Contains(next, "W") {
			next = strings.Replace(next, "W", pick(words()), 1)
		}
		if len(from) > 0 {
			many = min(1<<(from[0]%16), max(1, (maxFilled-len(command))/(len(next)+1)))
			from = from[1:]
		}
		command += strings.Repeat("\n"+next, many)
	}
	return command
}

func FuzzBounds(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		from := make([]byte, 4+random.IntN(24))
		for i := range from {
			from[i] = byte(random.IntN(256))
		}
		f.Add(from)
	}
	f.Fuzz(func(t *testing.T, from []byte) {
		command := composed(from)
		if have := made(command, command); have > 2*maxMade {
			t.Errorf("%d bytes ask for %d MB: %.200q", len(command), have>>20, command)
		}
	})
}

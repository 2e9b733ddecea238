package main_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// secretForms are what a secret is looked for as: as it is, and as programs write down what they
// were given. Of base64 it is what the secret becomes wherever it begins in a longer text.
func secretForms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret) // a string can be written
	forms := map[string]string{
		"as it is":                 secret,
		"in hexadecimal digits":    hex.EncodeToString([]byte(secret)),
		"in capital digits":        strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"escaped for a query":      url.QueryEscape(secret),
		"escaped for a path":       url.PathEscape(secret),
		"escaped for JSON":         strings.Trim(string(quoted), `"`),
		"escaped for JSON's slash": strings.ReplaceAll(secret, "/", `\/`),
	}
	for name, coding := range map[string]*base64.Encoding{"in base64": base64.RawStdEncoding, "in base64 of URLs": base64.RawURLEncoding} {
		for before := range 3 {
			text := coding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			first, last := (before*8+5)/6, (before+len(secret))*8/6 // what neighbours share is left out
			forms[name+", "+string(rune('0'+before))+" bytes in"] = text[first:last]
		}
	}
	return forms
}

// shortestHalf is how long the half of a secret is that is not met by chance.
const shortestHalf = 8

// holdsSecret says in which form a text holds a secret, whole or in two halves that stand apart. It
// is empty where the text holds none.
func holdsSecret(text []byte, secret string) string {
	for how, form := range secretForms(secret) {
		if bytes.Contains(text, []byte(form)) {
			return how
		}
	}
	half := len(secret) / 2
	if half >= shortestHalf && bytes.Contains(text, []byte(secret[:half])) && bytes.Contains(text, []byte(secret[half:])) {
		return "in two halves"
	}
	return ""
}

// hasNoSecret looks for a secret in the names and texts of all files below a folder.
func hasNoSecret(t *testing.T, dir, secret string) {
	t.Helper()
	looked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if how := holdsSecret([]byte(path), secret); how != "" {
			t.Errorf("the name %s holds the secret %s", path, how)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if how := holdsSecret(data, secret); how != "" {
			t.Errorf("%s holds the secret %s", path, how)
		}
		looked++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked == 0 {
		t.Errorf("there is no file below %s, so that nothing was looked at", dir)
	}
}

// hasNoSecret wants that nothing that a command said holds one of the secrets.
func (r result) hasNoSecret(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if how := holdsSecret([]byte(r.stdout+r.stderr), secret); how != "" {
			t.Errorf("what was said holds %.12s… %s", secret, how)
		}
	}
}

// heldOpen keeps a sandbox open until its input ends, after a script and then all that its agent can
// read. A word of the agent's own is in the environment of that last program.
const heldOpen = `(%s
)
code=$?
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
find /run /tmp /home /dev/shm /workspace -type f -size -512k -exec cat {} + 2>/dev/null
export MINE="$(printf a-word-of-%%s %s)"
exec sh -c "env | grep ^MINE=; read -r end; exit $code"
`

// awaited is what a program says, until a text was among it.
type awaited struct {
	into *bytes.Buffer
	text string
	said chan struct{}
}

// Write implements io.Writer.
func (a *awaited) Write(p []byte) (int, error) {
	before := bytes.Contains(a.into.Bytes(), []byte(a.text))
	n, err := a.into.Write(p)
	if !before && bytes.Contains(a.into.Bytes(), []byte(a.text)) {
		close(a.said)
	}
	return n, err
}

// searched runs a script in a sandbox, and before that ends looks at all that its agent could. That
// is the memory, environments and arguments of every process in it, and its files. None of the
// secrets that are used by then may be there, or in what was said.
func (i *installation) searched(script string, used func() []string, options ...string) result {
	i.t.Helper()
	word := rand.Text()
	r := &running{Cmd: i.command(filepath.Join(bin, "nacre"), append(append([]string{"exec"}, options...), "--", "sh", "-c", fmt.Sprintf(heldOpen, script, word))...)}
	input, end, err := os.Pipe()
	check(i.t, err)
	open := &awaited{&r.stdout, "MINE=a-word-of-" + word, make(chan struct{})}
	r.Stdin, r.Stdout, r.Stderr = input, open, &r.stderr
	check(i.t, r.Start())
	i.t.Cleanup(func() { _ = end.Close(); _ = input.Close() }) // once more is no harm
	ended := make(chan result, 1)
	go func() { ended <- finish(i.t, r) }()
	select {
	case <-open.said:
	case r := <-ended:
		i.t.Fatalf("exit %d before anybody looked\n%s%s", r.code, r.stdout, r.stderr)
	}
	remembered := memoryBeside(i.t, "a-word-of-"+word)
	secrets := used()
	if len(secrets) == 0 {
		i.t.Error("there is no secret to look for")
	}
	for _, secret := range secrets {
		if how := holdsSecret(remembered, secret); how != "" {
			i.t.Errorf("the memory of the sandbox holds %.12s… %s", secret, how)
		}
	}
	check(i.t, end.Close())
	done := <-ended
	done.hasNoSecret(i.t, secrets...)
	return done
}

// memoryBeside is what all processes of one sandbox have in their memory and environment: of the one
// in whose environment a word is. The word has to be found, or nothing was looked at.
func memoryBeside(t *testing.T, word string) (all []byte) {
	t.Helper()
	beside, err := filepath.Glob("/proc/[0-9]*/environ")
	check(t, err)
	space := ""
	for _, path := range beside {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte("MINE="+word)) {
			space, _ = os.Readlink(filepath.Join(filepath.Dir(path), "ns/pid"))
		}
	}
	if space == "" {
		t.Fatal("no process of the sandbox can be looked into")
	}
	for _, path := range beside {
		dir := filepath.Dir(path)
		if own, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && own == space {
			environment, _ := os.ReadFile(path) // it may be over
			all = slices.Concat(all, environment, memoryOf(dir))
		}
	}
	if !bytes.Contains(all, []byte(word)) {
		t.Fatalf("nothing of the agent's is in %d bytes of memory", len(all))
	}
	return all
}

// memoryOf is what a process has written into its memory, as far as it is there.
func memoryOf(dir string) (all []byte) {
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return nil // it is over
	}
	memory, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return nil
	}
	defer func() { _ = memory.Close() }() // only read from
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") || to-from > 64<<20 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := memory.ReadAt(part, from) // what is not there is zero
		all = append(all, part[:n]...)
	}
	return all
}

// M-33: the search that other tests make finds a secret however it was written down, and
// nothing where there is none.
func TestTheSearchForSecretsFindsThem(t *testing.T) {
	t.Parallel()
	const secret = "Zq8/quiet+harbour\"&<=>"
	for _, before := range []string{"", "a", "ab", "ada:"} {
		for how, text := range map[string]string{
			"plain": secret, "hex": hex.EncodeToString([]byte(before + secret)), "base64": base64.StdEncoding.EncodeToString([]byte(before + secret + "z")),
			"base64 of URLs": base64.URLEncoding.EncodeToString([]byte(before + secret)), "a query": url.Values{"q": {before + secret}}.Encode(),
			"JSON": func() string { text, _ := json.Marshal(before + secret); return string(text) }(), "halves": secret[:11] + " … " + secret[11:],
		} {
			if holdsSecret([]byte("before "+text+" after"), secret) == "" {
				t.Errorf("%s after %q: %s is not found", how, before, text)
			}
		}
	}
	if how := holdsSecret([]byte(strings.Repeat("quiet harbour Zq8 ", 100)), secret); how != "" {
		t.Errorf("found %s where there is none", how)
	}
}

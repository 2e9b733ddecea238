package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// post is an installation with a project and the plugin post, whose tools take files.
func post(t *testing.T) *installation {
	t.Helper()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"post\", \"keep\"]\n")
	i.program("plugins/post", "home/.local/share/nacre/plugins/post/handler")
	manifest, err := os.ReadFile("testdata/plugins/post/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	i.write("home/.local/share/nacre/plugins/post/manifest.json", string(manifest))
	i.write("p/draft.txt", "of the project\n")
	i.project()
	return i
}

// posted is what the plugin post was given.
func (i *installation) posted() string {
	i.t.Helper()
	data, err := os.ReadFile(i.state("data/post/done"))
	if err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
	return string(data)
}

// noCopies wants the copies of a session to be gone.
func (i *installation) noCopies(session string) {
	i.t.Helper()
	if left, err := os.ReadDir(i.state("sessions/" + session + "/pins")); !os.IsNotExist(err) {
		i.t.Errorf("copies are left: %v %v", left, err)
	}
}

// D-13: the agent swaps the file while a person reads the question; what they
// approved is what the plugin is given.
func TestWhatWasApprovedIsWhatAPluginIsGiven(t *testing.T) {
	t.Parallel()
	i := post(t)
	r := i.plays("work", "post my letter", `echo approved >letter.txt
{ `+untilTold("work", "go")+`; echo swapped >letter.txt; echo swapped >draft.txt; echo x >swapped; } &
ipc post '{"letter":"letter.txt","parts":[{"file":"draft.txt"}]}'; wait; cat letter.txt`)
	q := i.question()
	sum := sha256.Sum256([]byte("approved\n"))
	digest := hex.EncodeToString(sum[:])
	if len(q.Files) != 2 || q.Files[0].Argument != "letter" || q.Files[0].SHA256 != digest || q.Files[1].Argument != "parts.0.file" {
		t.Errorf("have %+v", q.Files)
	}
	i.nacre("approvals", "list").want(t, 0, "letter: 9 bytes, sha256 "+digest[:16]+"…, \"letter.txt\"", "parts.0.file: 15 bytes")
	i.tell("work", "go")
	eventually(t, "the swap", func() bool { return isThere(filepath.Join(i.workspace("work"), "swapped")) })
	i.nacre("approvals", "approve", q.ID).want(t, 0, "answered")
	said := i.said(r, "work")
	has(t, said[0], `"kept":2`, "swapped")
	if have := i.posted(); have != "post letter=letter.txt: \"approved\\n\"\npost parts.0.file=draft.txt: \"of the project\\n\"\n" {
		t.Errorf("it was given %s", have)
	}
	chain := i.records("work")
	has(t, chain, `"files":[{"argument":"letter","bytes":9,"sha256":"`+digest+`"},{"argument":"parts.0.file","bytes":15,`)
	i.approved(q)
	i.noCopies("work")
	i.nacre("audit", "verify").want(t, 0)
}

// D-13: copies for a question that a killed session was asking do not stay.
func TestCopiesOfAKilledSessionAreRemoved(t *testing.T) {
	t.Parallel()
	i := post(t)
	r := i.begin("exec", "-q", "--session", "killed", "--project", "p", "--", "ipc", "post", `{"letter":"draft.txt"}`)
	i.question()
	if copies, err := os.ReadDir(i.state("sessions/killed/pins")); err != nil || len(copies) != 1 {
		t.Errorf("have %v %v", copies, err)
	}
	_ = r.Process.Kill()
	_ = r.Wait()
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	i.noCopies("killed")
	if have := i.posted(); have != "" {
		t.Errorf("it was given %s", have)
	}
}

// D-13: an agent can put anything in its folder, and gets only its own files out of it.
func TestAnAgentNamesNothingButItsOwnFiles(t *testing.T) {
	t.Parallel()
	i := post(t)
	keep := func(name string) string { return `ipc keep '{"file":"` + name + `"}'` }
	said := i.play("keep my files",
		`ln -s draft.txt link; ln -s /etc link2; mkfifo fifo; mkdir folder; head -c 1100000 /dev/zero >big; head -c 70000000 /dev/zero >huge; true`,
		keep("link"), keep("link2/passwd"), keep("fifo"), keep("folder"), keep("../session.json"), keep("/etc/passwd"), keep("nothing"), keep("huge"),
		keep("big"), keep("draft.txt"), `rm -rf link link2 fifo folder big huge`)
	for n := 1; n <= 8; n++ {
		has(t, said[n], `"VALIDATION_FAILED"`, `"field":"file"`)
	}
	has(t, said[9], `"HANDLER_ERROR"`, "1048576 bytes")
	has(t, said[10], `"kept":1`)
	if have := i.posted(); have != "keep file=draft.txt: \"of the project\\n\"\n" {
		t.Errorf("it was given %s", have)
	}
	i.noCopies("work")
}

// D-13: a command of `nacre exec` names the files of its project; without a
// project there are none.
func TestACommandNamesTheFilesOfItsProject(t *testing.T) {
	t.Parallel()
	i := post(t)
	i.nacre("exec", "-q", "--project", "p", "--", "ipc", "keep", `{"file":"draft.txt"}`).want(t, 0, `"kept":1`)
	if have := i.posted(); have != "keep file=draft.txt: \"of the project\\n\"\n" {
		t.Errorf("it was given %s", have)
	}
	i.nacre("exec", "-q", "--", "ipc", "keep", `{"file":"draft.txt"}`).want(t, 1, "no project")
}

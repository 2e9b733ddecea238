package install

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/consent"
	"github.com/nacre-dev/nacre/internal/hostpath"
)

// Limits of a run of git.
const (
	gitTimeout = 5 * time.Minute
	gitOutput  = 16 << 20 // bytes of a listing
	gitWords   = 4 << 10  // bytes of a complaint that are kept
	gitPack    = 1 << 30  // bytes of any file that git writes
	gitMemory  = 4 << 30  // bytes of address space
	killDelay  = 5 * time.Second
)

// overrides are configuration that no repository can undo: they leave git
// nothing to run, and nothing to ask.
func overrides() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.alternateRefsCommand=false",
		"core.gitProxy=", "core.pager=cat", "core.editor=false", "core.protectNTFS=true", "core.protectHFS=true",
		"core.bigFileThreshold=16m", "credential.helper=", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "fetch.fsckObjects=true", "transfer.fsckObjects=true",
		"transfer.bundleURI=false", "fetch.bundleURI=", "fetch.unpackLimit=1", "transfer.unpackLimit=1", "gpg.program=false",
		"http.lowSpeedLimit=1", "http.lowSpeedTime=60", "http.cookieFile=", "remote.origin.promisor=false",
	}
}

// passed are the variables that say how this machine reaches others.
func passed() []string {
	return []string{
		"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "SSH_AUTH_SOCK",
	}
}

// git runs the program in an environment made from nothing, in one bare
// repository of its own.
type git struct {
	path   string
	dir    string
	source source
	getenv func(string) string
}

func newGit(dir string, from source, getenv func(string) string) (*git, error) {
	path, err := hostpath.LookPath("git")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("git is not installed: %w", err)
	}
	return &git{path, dir, from, getenv}, nil
}

func (g *git) environment() []string {
	env := []string{
		"PATH=" + filepath.Dir(g.path) + ":/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_PAGER=cat", "GIT_EDITOR=false",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no", "GIT_SSH_VARIANT=ssh",
		"GIT_ALLOW_PROTOCOL=" + g.source.protocol, "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_LITERAL_PATHSPECS=1", "GIT_DIR=" + g.dir,
	}
	for _, name := range passed() {
		if value := g.getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// fetch brings one commit, without its history, and returns its id. Nothing is
// checked out.
func (g *git) fetch(ctx context.Context, ref string) (string, error) {
	if err := g.run(ctx, io.Discard, nil, "init", "--quiet", "--bare", "--template=", g.dir); err != nil {
		return "", err
	}
	if ref == "" {
		ref = "HEAD"
	}
	err := g.run(ctx, io.Discard, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
		"--no-auto-maintenance", "--", g.source.text, "+"+ref+":refs/nacre/want")
	if err != nil {
		return "", err
	}
	out := &capped{limit: gitWords, strict: true}
	if err := g.run(ctx, out, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/nacre/want^{commit}"); err != nil {
		return "", fmt.Errorf("%s is no commit: %w", ref, err)
	}
	commit := out.text()
	if !consent.IsCommit(commit) {
		return "", fmt.Errorf("git says %.80q instead of a commit", commit)
	}
	return commit, nil
}

// blob is one file of a commit.
type blob struct {
	id, name   string
	executable bool
	size       int64
}

// write puts the commit's files into a tree: bytes as they are, no filter, no
// hook. Anything but a file is refused before the first is written.
func (g *git) write(ctx context.Context, commit string, t *tree) error {
	listing := &records{kept: capped{limit: gitOutput, strict: true}}
	err := g.run(ctx, listing, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	if listing.n > maxFiles {
		return errManyFiles // git itself says only that nobody read on
	}
	if err != nil {
		return err
	}
	var blobs []blob
	for record := range strings.SplitSeq(strings.TrimSuffix(listing.kept.kept.String(), "\x00"), "\x00") {
		if record == "" {
			return errors.New("the commit has no files")
		}
		b, err := parseBlob(record)
		if err == nil {
			err = t.admit(b.name, b.size)
		}
		if err != nil {
			return err
		}
		blobs = append(blobs, b)
	}
	return g.writeBlobs(ctx, blobs, t)
}

func parseBlob(record string) (blob, error) {
	about, name, _ := strings.Cut(record, "\t")
	fields := strings.Fields(about)
	if len(fields) != 4 {
		return blob{}, fmt.Errorf("git lists %.80q, which is no file", record)
	}
	switch fields[0] {
	case "100644", "100755", "100664":
	case "120000":
		return blob{}, fmt.Errorf("%q is a symbolic link: put the file itself there", name)
	case "160000":
		return blob{}, fmt.Errorf("%q is a submodule: put its files into the repository", name)
	default:
		return blob{}, fmt.Errorf("%q has the unknown mode %s", name, fields[0])
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || size < 0 || fields[1] != "blob" {
		return blob{}, fmt.Errorf("git lists %.80q, which is no file", record)
	}
	return blob{fields[2], name, fields[0] == "100755", size}, nil
}

func (g *git) writeBlobs(ctx context.Context, blobs []blob, t *tree) error {
	var ids bytes.Buffer
	for _, b := range blobs {
		ids.WriteString(b.id + "\n")
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := g.run(ctx, w, &ids, "cat-file", "--batch")
		_ = w.CloseWithError(errors.Join(err, io.ErrUnexpectedEOF)) // never fails
		done <- err
	}()
	out := bufio.NewReader(r)
	var err error
	for _, b := range blobs {
		if err = writeBlob(b, out, t); err != nil {
			break
		}
	}
	_ = r.CloseWithError(err) // ends git where it still writes
	ended := <-done
	if err != nil {
		return err
	}
	return ended
}

func writeBlob(b blob, out *bufio.Reader, t *tree) error {
	head, err := out.ReadString('\n')
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%s blob %d\n", b.id, b.size); head != want {
		return fmt.Errorf("git gives %.80q for %q", head, b.name)
	}
	if err := t.write(b.name, b.executable, b.size, io.LimitReader(out, b.size)); err != nil {
		return err
	}
	end, err := out.ReadByte()
	if err == nil && end != '\n' {
		err = fmt.Errorf("git gives more than %d bytes for %q", b.size, b.name)
	}
	return err
}

// run gives git's output to out. Its limits hold for what it starts too.
func (g *git) run(ctx context.Context, out io.Writer, in io.Reader, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	settings := append(overrides(), "protocol."+g.source.protocol+".allow=always")
	all := make([]string, 0, 2*len(settings)+len(args))
	for _, override := range settings {
		all = append(all, "-c", override)
	}
	cmd := exec.CommandContext(ctx, g.path, append(all, args...)...)
	complaint := &capped{limit: gitWords}
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.environment(), "/", in, out, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = killDelay
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git: %w", err)
	}
	limited := limit(cmd.Process.Pid)
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], ctx.Err())
	case err != nil && complaint.text() != "":
		return fmt.Errorf("git %s: %s", args[0], complaint.text())
	case err != nil:
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return limited
}

// records takes as many records, each with a NUL at its end, as a plugin may have files. A tree of
// a few objects can list more than anybody waits for.
type records struct {
	kept capped
	n    int
}

// Write implements io.Writer.
func (r *records) Write(p []byte) (int, error) {
	if r.n += bytes.Count(p, []byte{0}); r.n > maxFiles {
		return 0, errManyFiles
	}
	return r.kept.Write(p)
}

// capped keeps the first limit bytes; a strict one refuses more. The buffer is
// a field and not embedded: its ReadFrom would go round the limit.
type capped struct {
	kept   bytes.Buffer
	limit  int
	strict bool
}

// Write implements io.Writer.
func (b *capped) Write(p []byte) (int, error) {
	room := b.limit - b.kept.Len()
	if b.strict && len(p) > room {
		return 0, fmt.Errorf("more than %d bytes of names", b.limit)
	}
	_, _ = b.kept.Write(p[:min(len(p), room)]) // a buffer in memory takes all
	return len(p), nil
}

func (b *capped) text() string { return strings.TrimSpace(b.kept.String()) }

package assembly

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/confine"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/role"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// projectRules is the folder in which a project adds roles and atoms of its own.
const projectRules = ".nacre"

// readTask reads and checks a task's file.
func readTask(path string) (atom.Task, error) {
	data, err := readRegular(path, atom.MaxFile)
	if err != nil {
		return atom.Task{}, badConfig("%s: %w", path, err)
	}
	t, err := atom.ParseTask(data)
	if err != nil {
		return atom.Task{}, badConfig("%s: %w", path, err)
	}
	return t, nil
}

// readRegular reads a regular file of at most so many bytes: of a pipe nobody
// may ever write, and it could be read only once.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it is over %d bytes", most)
	}
	return data, err
}

// sameTask refuses to go on with another task than was pinned.
func sameTask(id nacre.SessionID, order *task.Order, file string) error {
	if file == "" {
		return nil
	}
	t, err := readTask(file)
	if err != nil {
		return err
	}
	if order != nil && t.AgentID == "" { // then it was given one
		t.AgentID = order.Agent
	}
	if order == nil || string(t.Canonical()) != order.Task {
		return badConfig("session %s has unfinished work on another task than %s says: go on with `nacre task run --session %s`, or use another session", id, file, id)
	}
	return nil
}

// resolve finds a role as it holds in a project: what ships with nacre, and
// what the project's .nacre adds; no project adds nothing.
func resolve(project, name string) (role.Resolved, error) {
	library, done, err := roles(project)
	if err != nil {
		return role.Resolved{}, &ConfigError{err}
	}
	defer done()
	resolved, err := library.Resolve(name)
	if err != nil {
		return role.Resolved{}, &ConfigError{err}
	}
	return resolved, nil
}

func roles(project string) (l role.Library, done func(), err error) {
	if project == "" {
		return role.Library{}, func() {}, nil
	}
	rules, done, err := OpenRules(project)
	return role.Library{Project: rules}, done, err
}

// OpenRules opens what a project adds to the rules that ship, its .nacre folder;
// nil means that it adds none. What has that name and is no folder is an error,
// and so is a link: where it leads is not the project. done ends the reading.
func OpenRules(project string) (rules fs.FS, done func(), err error) {
	folder := filepath.Join(project, projectRules)
	info, err := os.Lstat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, func() {}, nil
	case err != nil:
		return nil, nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, nil, fmt.Errorf("%s is a symbolic link: put the folder itself there", folder)
	case !info.IsDir(): // opening a pipe would wait
		return nil, nil, fmt.Errorf("%s is no folder", folder)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, nil, errors.Join(fmt.Errorf("%s is another folder than a moment ago", folder), err, root.Close())
	}
	return root.FS(), func() { _ = root.Close() }, nil // it was only read
}

// pin makes an order of a task: from now on its files may change (S-09). The
// prompt is what the agent is given.
func pin(project string, t atom.Task) (order task.Order, prompt string, err error) {
	resolved, err := resolve(project, t.Role)
	if err != nil {
		return task.Order{}, "", err
	}
	if prompt, err = role.Compose(resolved, t); err != nil {
		return task.Order{}, "", &ConfigError{err}
	}
	for _, a := range resolved.Atoms {
		if g := guard.Of(a, &t.Parameters); g.Missing != "" {
			return task.Order{}, "", badConfig("%s: %s", a.ID, g.Missing)
		}
	}
	var nonce [4]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the process instead
	if t.AgentID == "" {
		t.AgentID = "agent-" + hex.EncodeToString(nonce[:])
	}
	return task.Order{
		Body: t.Body, Task: string(t.Canonical()), Agent: t.AgentID, Parent: t.Parent, Role: resolved.Name, SpecSHA: t.SpecSHA(), DNA: dna.Compose(t, resolved.Atoms, nonce).String(),
		Parameters: t.Parameters, Atoms: resolved.Atoms, Gates: guard.SetOf(posture.Workspace, resolved, t.Parameters), Escalation: task.Escalation(resolved.Escalation),
	}, prompt, nil
}

// judge holds work against the order's atoms.
func (s *sealed) judge(ctx context.Context, order *task.Order, w verify.Subject, atoms []atom.Atom) (verify.Report, error) {
	var err error
	if w.Ledger, err = s.runtime.entered(ctx, order.DNA); err != nil {
		return verify.Report{}, err
	}
	w.Fetch = s.fetchPackages
	return verify.Judge(ctx, w, atoms, s.runner())
}

// confine makes the third layer of atoms with a task's lists over the project,
// which nobody else has touched yet. A scratch folder is lost anyway, so of the
// layer it only gets what hides programs.
func (s *sealed) confine(in *posture.Input, atoms []atom.Atom, lists atom.Parameters) (widened []string, err error) {
	if len(atoms) == 0 {
		return nil, nil
	}
	project := in.Project
	if project == "" {
		project = filepath.Join(s.Dir(), "no-project") // is not there, so nothing in it is
	}
	layer, err := confine.Of(atoms, lists, project, posture.Workspace, s.programFolders())
	if err != nil {
		return nil, err
	}
	if in.Project == "" {
		in.Mounts = append(slices.DeleteFunc(layer.Mounts, func(m nacre.Mount) bool { return m.Kind != nacre.Mask }), in.Mounts...)
		return nil, nil
	}
	for _, folder := range layer.Make {
		if err := os.MkdirAll(filepath.Join(in.Project, folder), 0o755); err != nil {
			return nil, err
		}
	}
	in.ReadOnlyProject = layer.ReadOnly
	in.Mounts = append(layer.Mounts, in.Mounts...)
	return layer.Widened, nil
}

// programFolders are the folders inside that hold programs.
func (s *sealed) programFolders() []string {
	folders := []string{posture.BinDir, "/usr/bin", "/bin", "/usr/sbin", "/sbin"}
	for _, t := range s.found.toolchains {
		folders = append(folders, t.Path...)
	}
	system := systemMounts(s.Sandbox())
	return slices.DeleteFunc(folders, func(folder string) bool { // a link's folder is masked where it leads
		return slices.ContainsFunc(system, func(m nacre.Mount) bool { return m.Kind == nacre.SymlinkTo && m.Target == folder })
	})
}

// goOn asks a person whether a run goes on whose call was refused (S-18). What
// cannot be recorded is not asked, and the run ends.
func (s *sealed) goOn(ctx context.Context, refusal string) error {
	arguments, err := json.Marshal(map[string]string{"refused": refusal})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(arguments)
	q := nacre.Question{
		Capability: continueCapability, Arguments: arguments, Digest: hex.EncodeToString(digest[:]),
		Why: "a gate refused a call of the agent; approve to let the run go on without it",
	}
	if err := s.recordEscalation(ctx, q, refusal); err != nil {
		return fmt.Errorf("the question whether the run goes on was not recorded, so nobody was asked: %w", err)
	}
	ruling, err := s.Approvals.Ask(ctx, q)
	switch {
	case err != nil:
		return fmt.Errorf("nobody said that the run may go on: %w", err)
	case ruling.Verdict != nacre.Allow:
		return errors.New("a person ended the run")
	}
	return nil
}

// recordEscalation is durable before anybody is asked: a run that is killed
// while it waits has left what it waited for.
func (s *sealed) recordEscalation(ctx context.Context, q nacre.Question, refusal string) error {
	detail, err := json.Marshal(map[string]string{"capability": string(q.Capability), "digest": q.Digest, "refused": refusal})
	if err != nil {
		return err
	}
	return s.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindApprovalAsk, Source: "core", Reason: q.Why, Detail: detail})
}

// continueCapability names the question whether a run goes on.
const continueCapability = "task.continue"

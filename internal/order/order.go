// Package order pins what a task of the substrate asks for, its role, atoms and
// parameters, and confines a session to them.
package order

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
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/confine"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/role"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/toolchain"
)

// projectRules is the folder in which a project adds roles and atoms of its own.
const projectRules = ".nacre"

// ReadTask reads and checks a task's file.
func ReadTask(path string) (atom.Task, error) {
	data, err := ReadRegular(path, atom.MaxFile)
	if err != nil {
		return atom.Task{}, config.Errorf("%s: %w", path, err)
	}
	t, err := atom.ParseTask(data)
	if err != nil {
		return atom.Task{}, config.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// ReadRegular reads a regular file of at most so many bytes: of a pipe nobody
// may ever write, and it could be read only once.
func ReadRegular(path string, most int64) ([]byte, error) {
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

// SameTask refuses to go on with another task than was pinned.
func SameTask(id nacre.SessionID, order *task.Order, file string) error {
	if file == "" {
		return nil
	}
	t, err := ReadTask(file)
	if err != nil {
		return err
	}
	if order != nil && t.AgentID == "" { // then it was given one
		t.AgentID = order.Agent
	}
	if order == nil || string(t.Canonical()) != order.Task {
		return config.Errorf("session %s has unfinished work on another task than %s says: go on with `nacre task run --session %s`, or use another session", id, file, id)
	}
	return nil
}

// Resolve finds a role as it holds in a project: what ships with nacre, and what the project's
// .nacre adds. Without a project nothing is added.
func Resolve(project, name string) (role.Resolved, error) {
	library, done, err := Roles(project)
	if err != nil {
		return role.Resolved{}, &config.Error{Err: err}
	}
	defer done()
	resolved, err := library.Resolve(name)
	if err != nil {
		return role.Resolved{}, &config.Error{Err: err}
	}
	return resolved, nil
}

// Roles are the roles that a project and nacre itself have. done closes the project's.
func Roles(project string) (l role.Library, done func(), err error) {
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

// Pin makes an order of a task: from now on its files may change (S-09). The
// prompt is what the agent is given.
func Pin(project string, t atom.Task) (order task.Order, prompt string, err error) {
	resolved, err := Resolve(project, t.Role)
	if err != nil {
		return task.Order{}, "", err
	}
	if prompt, err = role.Compose(resolved, t); err != nil {
		return task.Order{}, "", &config.Error{Err: err}
	}
	for _, a := range resolved.Atoms {
		if g := guard.Of(a, &t.Parameters); g.Missing != "" {
			return task.Order{}, "", config.Errorf("%s: %s", a.ID, g.Missing)
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

// Confine makes the third layer of atoms with a task's lists over the project,
// which nobody else has touched yet. A scratch folder is lost anyway, so of the
// layer it only gets what hides programs.
func Confine(s *basis.Basis, in *posture.Input, atoms []atom.Atom, lists atom.Parameters) (widened []string, err error) {
	if len(atoms) == 0 {
		return nil, nil
	}
	project := in.Project
	if project == "" {
		project = filepath.Join(s.Dir(), "no-project") // is not there, so nothing in it is
	}
	layer, err := confine.Of(atoms, lists, project, posture.Workspace, programFolders(s))
	if err != nil {
		return nil, err
	}
	if in.Project == "" {
		in.Mounts = append(slices.DeleteFunc(layer.Mounts, func(m nacre.Mount) bool { return m.Kind != nacre.Mask }), in.Mounts...)
		return nil, nil
	}
	if err := makeFolders(in.Project, layer.Make); err != nil {
		return nil, err
	}
	in.ReadOnlyProject = layer.ReadOnly
	in.Mounts = append(layer.Mounts, in.Mounts...)
	return layer.Widened, nil
}

// makeFolders makes folders in a project, and none elsewhere by a link that came there meanwhile.
func makeFolders(project string, folders []string) error {
	root, err := os.OpenRoot(project)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if folder != "" {
			err = errors.Join(err, root.MkdirAll(folder, 0o755))
		}
	}
	return errors.Join(err, root.Close())
}

// Role is what holds a command. There is no task whose lists of files would open
// anything. The zero value holds nothing.
type Role struct{ atoms []atom.Atom }

// CommandRole finds the role of a command in its project; an empty name is none.
func CommandRole(project, name string) (Role, error) {
	if name == "" {
		return Role{}, nil
	}
	resolved, err := Resolve(project, name)
	if err == nil {
		err = resolved.CheckSpawnable()
	}
	if err != nil {
		return Role{}, &config.Error{Err: err}
	}
	return Role{resolved.Atoms}, nil
}

// Confine makes what of the role the operating system holds, with what of it is wider
// than the role says.
func (r Role) Confine(s *basis.Basis, in *posture.Input) (widened []string, err error) {
	if widened, err = Confine(s, in, r.atoms, atom.Parameters{}); err != nil {
		return nil, &config.Error{Err: err}
	}
	return widened, nil
}

// Argv is a command as it is started inside. What the caller's PATH finds outside of the folders
// that every session has is shown to it (F-115). A role says itself which programs are there.
func Argv(s *basis.Basis, in *posture.Input, role string, argv []string) []string {
	if role != "" || !s.Sandbox().HostTools() {
		return argv
	}
	memo := toolchain.OpenMemo(s.Inst.Options.Getenv, "", s.Found.System)
	program, mounts := toolchain.Program(memo, s.Found.Toolchains, argv[0])
	in.Mounts = append(in.Mounts, mounts...)
	return append([]string{program}, argv[1:]...)
}

// Tool shows a session a program that others start there by its name, and tells whether it
// is there.
func Tool(s *basis.Basis, in *posture.Input, name string) bool {
	if _, err := exec.LookPath(name); err != nil || !s.Sandbox().HostTools() {
		return false
	}
	at := Argv(s, in, "", []string{name})[0]
	return at == name || at == posture.BinDir+"/"+name
}

// programFolders are the folders inside that hold programs.
func programFolders(s *basis.Basis) []string {
	folders := []string{posture.BinDir, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"}
	for _, t := range s.Found.Toolchains {
		folders = append(folders, t.Path...)
	}
	system := installation.SystemMounts(s.Sandbox())
	return slices.DeleteFunc(folders, func(folder string) bool { // a link's folder is masked where it leads
		return slices.ContainsFunc(system, func(m nacre.Mount) bool { return m.Kind == nacre.SymlinkTo && m.Target == folder })
	})
}

// GoOn asks a person whether a run goes on whose call was refused (S-18). What
// cannot be recorded is not asked, and the run ends.
func GoOn(ctx context.Context, s *basis.Basis, refusal string) error {
	arguments, err := json.Marshal(map[string]string{"refused": refusal})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(arguments)
	q := nacre.Question{
		Capability: continueCapability, Arguments: arguments, Digest: hex.EncodeToString(digest[:]),
		Why: "a gate refused a call of the agent; approve to let the run go on without it", Safety: nacre.Write,
	}
	if err := recordEscalation(ctx, s, q, refusal); err != nil {
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
func recordEscalation(ctx context.Context, s *basis.Basis, q nacre.Question, refusal string) error {
	detail, err := json.Marshal(map[string]string{"capability": string(q.Capability), "digest": q.Digest, "refused": refusal})
	if err != nil {
		return err
	}
	return s.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindApprovalAsk, Source: "core", Reason: q.Why, Detail: detail})
}

// continueCapability names the question whether a run goes on; a card knows it as
// question.Continue.
const continueCapability = "nacre.continue"

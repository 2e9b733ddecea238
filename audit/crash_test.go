package audit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// childEnv makes the test binary one of the children below instead.
const childEnv = "NACRE_AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "write":
		childWrites(os.Args[1])
		os.Exit(1)
	case "contend":
		os.Exit(childContends(os.Args[1]))
	case "full":
		os.Exit(childFillsDisk(os.Args[1]))
	}
}

func child(t *testing.T, mode, root string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, root)
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

func childOptions(root string) audit.Options {
	keys, err := audit.NewKeys([]byte(strings.Repeat("s", 32)), []byte(strings.Repeat("m", 32)))
	if err != nil {
		return audit.Options{} // which Open refuses
	}
	return audit.Options{Root: root, Chain: "a", Keys: keys, Now: testClock(), SegmentBytes: 64 << 10}
}

// childWrites commits from many goroutines and prints each record's number
// once it is durable, until it is killed.
func childWrites(root string) {
	c, err := audit.Open(context.Background(), childOptions(root))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range 8 {
		wg.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				if err := c.Commit(context.Background(), nacre.Record{Kind: "x", Reason: strconv.Itoa(n)}); err != nil {
					return
				}
				fmt.Printf("%d\n", n)
			}
		})
	}
	wg.Wait()
}

// K-20, K-21: what was committed is there after kill -9, and the chain goes on.
func TestKilledWriterLosesNothingCommitted(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	committed := map[string]bool{}
	for range 3 {
		cmd := child(t, "write", root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			committed[lines.Text()] = true
			if n == 500 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		if have, err := audit.Verify(root, "a", trust(t)); !errors.Is(err, audit.ErrUnsealed) || have.State != audit.StateAbandoned {
			t.Fatalf("before it is sealed: have %v, %v", have.State, err)
		}
	}
	names, err := audit.Abandoned(root, testKeys(t).Public())
	if err != nil || len(names) != 1 || names[0] != "a" {
		t.Fatalf("have %v, %v", names, err)
	}
	if err := audit.Seal(t.Context(), options(t, root, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.VerifyAll(root, trust(t)); err != nil {
		t.Error(err)
	}
	if names, err = audit.Abandoned(root, testKeys(t).Public()); err != nil || len(names) != 0 {
		t.Errorf("have %v, %v", names, err)
	}
	err = audit.Read(root, "a", func(e audit.Entry) error { delete(committed, e.Reason); return nil })
	if err != nil || len(committed) != 0 {
		t.Errorf("%d committed records are gone: %v", len(committed), err)
	}
}

// childFillsDisk runs into a limit on its files' size, which is how a full
// disk looks to it.
func childFillsDisk(root string) int {
	c, err := audit.Open(context.Background(), childOptions(root))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	limit := syscall.Rlimit{Cur: 8 << 10, Max: 8 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return 1
	}
	n := 0
	for ; n < 1000 && err == nil; n++ {
		err = c.Commit(context.Background(), nacre.Record{Kind: "x", Reason: strings.Repeat("r", 100)})
	}
	if err == nil {
		fmt.Println("the disk never filled up")
		return 1
	}
	again := c.Append(context.Background(), nacre.Record{Kind: "x"})
	_, head := c.Head(context.Background())
	closing := c.Close(context.Background())
	for _, e := range []error{again, head, closing} {
		if !errors.Is(e, syscall.EFBIG) {
			fmt.Printf("after %v: have %v\n", err, e)
			return 1
		}
	}
	fmt.Println(n - 1)
	return 0
}

func TestFailingDiskFailsEveryLaterCall(t *testing.T) { // K-21
	root := filepath.Join(t.TempDir(), "audit")
	out, err := child(t, "full", root).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	committed, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || committed == 0 {
		t.Fatalf("have %q, %v", out, err)
	}
	if _, err := audit.Verify(root, "a", trust(t)); !errors.Is(err, audit.ErrUnsealed) {
		t.Errorf("after the failure: have %v", err)
	}
	if err := audit.Seal(t.Context(), options(t, root, "a")); err != nil {
		t.Fatal(err)
	}
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.Records < uint64(committed)+3 {
		t.Errorf("have %+v, %v, want %d committed records", have, err, committed)
	}
	torn, err := filepath.Glob(filepath.Join(root, "a", "torn-*"))
	if err != nil || len(torn) != 1 {
		t.Errorf("the torn bytes were not kept: %v, %v", torn, err)
	}
}

// abandon makes a chain as a killed writer leaves it: whole records and no end.
func abandon(t *testing.T, root string) (segment string) {
	t.Helper()
	closed := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, func() audit.Options { o := options(t, closed, "a"); o.SegmentBytes = 0; return o }())
	writeCalls(t, c, 3)
	if _, err := c.Head(t.Context()); err != nil { // all is on disk
		t.Fatal(err)
	}
	if err := os.CopyFS(root, os.DirFS(closed)); err != nil {
		t.Fatal(err)
	}
	closeChain(t, c)
	for _, dir := range []string{root, filepath.Join(root, "a"), filepath.Join(root, "index")} {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "a", "000001.jsonl")
}

// K-21: a head is made durable beside what it signs, and takes its name after it: no
// head signs what the disk has refused.
func TestNoHeadSignsWhatIsNotDurable(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, test := range map[string]struct {
		failing int // sync of a segment
		opens   bool
	}{"of a new chain": {1, false}, "of a chain that closes": {2, true}} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			o := options(t, filepath.Join(t.TempDir(), "audit"), "a")
			audit.FailSync(&o, test.failing, broken)
			c, err := audit.Open(t.Context(), o)
			if (err == nil) != test.opens {
				t.Fatalf("have %v", err)
			}
			if err == nil {
				err = c.Close(t.Context())
			}
			if !errors.Is(err, broken) {
				t.Errorf("have %v", err)
			}
			head, err := audit.ReadHead(o.Root, "a", o.Keys.Public())
			if !test.opens && !errors.Is(err, os.ErrNotExist) || test.opens && (err != nil || head.State != audit.HeadOpen || head.Seq != 0) {
				t.Errorf("have %+v, %v", head, err)
			}
		})
	}
}

func TestTornLastLineIsKeptAsideAndTold(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	segment := abandon(t, root)
	f, err := os.OpenFile(segment, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"x","prev_ha`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	c := openChain(t, options(t, root, "a"))
	writeCalls(t, c, 1)
	closeChain(t, c)
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.Records != 1+6+1+2+1 {
		t.Errorf("have %+v, %v", have, err)
	}
	kept, err := os.ReadFile(filepath.Join(root, "a", "torn-7"))
	if err != nil || string(kept) != `{"kind":"x","prev_ha` {
		t.Errorf("have %q, %v", kept, err)
	}
	told := false
	_ = audit.Read(root, "a", func(e audit.Entry) error {
		told = told || e.Kind == nacre.KindChainOpen && strings.Contains(string(e.Detail), `"torn":{"bytes":20,`)
		return nil
	})
	if !told {
		t.Error("no record tells of the torn bytes")
	}
}

func TestOpenRefusesAChainThatWasTouched(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, root, segment string){
		"a whole line is broken": func(t *testing.T, _, segment string) { rewrite(t, segment, `"n":1`, `"n":2`) },
		"the tail is cut off":    func(t *testing.T, _, segment string) { _ = os.Truncate(segment, 0) },
		"all records are gone":   func(t *testing.T, _, segment string) { _ = os.Remove(segment) },
		"the head is gone":       func(t *testing.T, root, _ string) { _ = os.Remove(filepath.Join(root, "a", "head.json")) },
		"the head is another's": func(t *testing.T, root, _ string) {
			data, _ := os.ReadFile(filepath.Join(root, "index", "head.json"))
			_ = os.WriteFile(filepath.Join(root, "a", "head.json"), data, 0o600)
		},
		"the index's head is gone": func(t *testing.T, root, _ string) {
			for _, name := range []string{"b", "c"} {
				closeChain(t, openChain(t, options(t, root, name)))
			}
			_ = os.Remove(filepath.Join(root, "index", "head.json"))
		},
		"a line was added without the key": func(t *testing.T, _, segment string) {
			data, _ := os.ReadFile(segment)
			lines := strings.SplitAfter(string(data), "\n")
			last := lines[len(lines)-2]
			forged := last[:len(last)-4] + "00\"}\n"
			_ = os.WriteFile(segment, []byte(strings.Join(lines[:len(lines)-2], "")+forged), 0o600)
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "audit")
			do(t, root, abandon(t, root))
			c, err := audit.Open(t.Context(), options(t, root, "a"))
			if !errors.Is(err, audit.ErrTampered) {
				t.Errorf("have %v", err)
			}
			if err == nil {
				_ = c.Close(t.Context())
			}
		})
	}
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("%s does not hold %s: %v", path, from, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A crash between any two steps of a beginning leaves what the next start can go on with.
func TestInterruptedBeginningsGoOn(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"before anything":  func(dir string) error { return os.RemoveAll(dir) },
		"after the folder": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"after the segment's name": func(dir string) error {
			return errors.Join(os.Remove(dir+"/head.json"), os.Truncate(dir+"/000001.jsonl", 0))
		},
		"within the first record": func(dir string) error {
			return errors.Join(os.Remove(dir+"/head.json"), os.Truncate(dir+"/000001.jsonl", 50))
		},
		"before the head":  func(dir string) error { return os.Remove(dir + "/head.json") },
		"within the head":  func(dir string) error { return os.WriteFile(dir+"/head.json.tmp", []byte("{"), 0o600) },
		"before the index": func(string) error { return nil },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			full, root := filepath.Join(t.TempDir(), "audit"), filepath.Join(t.TempDir(), "audit")
			c := openChain(t, options(t, full, "a"))
			defer func() { _ = c.Close(context.Background()) }()
			closeChain(t, openChain(t, options(t, root, "earlier")))
			if err := os.CopyFS(filepath.Join(root, "a"), os.DirFS(filepath.Join(full, "a"))); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(root, "a"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := do(filepath.Join(root, "a")); err != nil {
				t.Fatal(err)
			}
			nothing := name == "before anything" || name == "after the folder"
			if _, err := audit.VerifyAll(root, trust(t)); (err == nil) != nothing {
				t.Errorf("before going on: have %v", err)
			}
			names, err := audit.Abandoned(root, testKeys(t).Public())
			if err != nil || (len(names) == 0) != nothing {
				t.Errorf("have %v, %v", names, err)
			}
			again := openChain(t, options(t, root, "a"))
			writeCalls(t, again, 2)
			closeChain(t, again)
			if _, err := audit.VerifyAll(root, trust(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A chain goes on in the index from where it entered itself, and finds out where
// others were there meanwhile, however they ended.
func TestTheIndexIsEnteredWhereOthersLeftIt(t *testing.T) {
	add := func(name, text string) func(t *testing.T, root string) {
		return func(t *testing.T, root string) {
			t.Helper()
			f, err := os.OpenFile(filepath.Join(root, "index", name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err == nil {
				_, err = f.WriteString(text)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, root string)
		torn      bool
	}{
		"nobody was there": {func(*testing.T, string) {}, false},
		"another chain began and ended": {func(t *testing.T, root string) {
			closeChain(t, openChain(t, options(t, root, "b")))
		}, false},
		"another was killed in its entry":      {add("000001.jsonl", `{"kind":"ch`), true},
		"another was killed after it cut that": {add("torn-2", `{"kind":"ch`), true},
		"so many that a segment was full": {func(t *testing.T, root string) {
			for n := range 60 {
				closeChain(t, openChain(t, options(t, root, "b"+strconv.Itoa(n))))
			}
		}, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "audit")
			c := openChain(t, options(t, root, "a"))
			test.meanwhile(t, root)
			closeChain(t, c)
			if _, err := audit.VerifyAll(root, trust(t)); err != nil {
				t.Error(err)
			}
			told := false
			err := audit.Read(root, "index", func(e audit.Entry) error {
				told = told || strings.Contains(string(e.Detail), `"torn":{"bytes":11,`)
				return nil
			})
			if err != nil || told != test.torn {
				t.Errorf("told of torn bytes: %v, %v", told, err)
			}
		})
	}
	t.Run("its_head_was_changed", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "audit")
		c := openChain(t, options(t, root, "a"))
		rewrite(t, filepath.Join(root, "index", "head.json"), `"seq":1`, `"seq":9`)
		if err := c.Close(t.Context()); !errors.Is(err, audit.ErrTampered) {
			t.Errorf("have %v", err)
		}
	})
}

func TestSealingNeedsAChainThatNobodyWrites(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	if err := audit.Seal(t.Context(), options(t, root, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no chain: have %v", err)
	}
	c := openChain(t, options(t, root, "a"))
	defer func() { _ = c.Close(context.Background()) }()
	if err := audit.Seal(t.Context(), options(t, root, "a")); !errors.Is(err, audit.ErrLocked) {
		t.Errorf("a living writer: have %v", err)
	}
	if names, err := audit.Abandoned(root, testKeys(t).Public()); err != nil || len(names) != 0 {
		t.Errorf("a living writer: have %v, %v", names, err)
	}
}

// childContends opens the chain as often as it gets the lock and says so.
func childContends(root string) int {
	for n := range 20 {
		c, err := audit.Open(context.Background(), childOptions(root))
		if errors.Is(err, audit.ErrLocked) {
			continue
		}
		if err == nil {
			err = c.Commit(context.Background(), nacre.Record{Kind: "x", Source: strconv.Itoa(os.Getpid()), Stage: n + 1})
		}
		if err == nil {
			err = c.Close(context.Background())
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("wrote")
	}
	return 0
}

// K-20: two processes write one chain in turn, never at once.
func TestTwoProcessesTakeTurns(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	first, second := child(t, "contend", root), child(t, "contend", root)
	var out [2]strings.Builder
	for i, cmd := range []*exec.Cmd{first, second} {
		cmd.Stdout = &out[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Errorf("%v: %s%s", err, out[0].String(), out[1].String())
	}
	want := strings.Count(out[0].String()+out[1].String(), "wrote")
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.Records != uint64(3*want) || want == 0 {
		t.Errorf("have %+v, %v, want %d records of each", have, err, want)
	}
}

// A disk that is full: on a small tmpfs where that may be mounted.
func TestFullDiskFailsClosed(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("no tmpfs here (TestFailingDiskFailsEveryLaterCall limits the files' size instead): %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	o := options(t, filepath.Join(dir, "audit"), "a")
	c := openChain(t, o)
	var err error
	done := 0
	for ; err == nil && done < 10_000; done++ {
		err = c.Commit(t.Context(), call(nacre.KindCallBegin, strconv.Itoa(done)))
	}
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(c.Close(t.Context()), syscall.ENOSPC) {
		t.Errorf("have %v", err)
	}
	have, err := audit.Verify(o.Root, "a", trust(t))
	if !errors.Is(err, audit.ErrUnsealed) || have.Records < uint64(done) {
		t.Errorf("have %+v, %v, want %d committed records", have, err, done-1)
	}
}

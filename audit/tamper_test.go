package audit_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// sample is a root with two closed chains, k3f9.1 and other, and the receipt of the first.
type sample struct {
	t       testing.TB
	root    string
	receipt string
}

func newSample(t testing.TB) sample {
	t.Helper()
	s := sample{t: t, root: filepath.Join(t.TempDir(), "audit")}
	s.receipt = filepath.Join(filepath.Dir(s.root), "k3f9.receipt")
	c := openChain(t, options(t, s.root, "k3f9.1"))
	writeCalls(t, c, 8)
	s.save("open-head.json", filepath.Join("k3f9.1", "head.json"))
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeChain(t, c)
	s.save("early-index-head.json", filepath.Join("index", "head.json"))
	other := openChain(t, options(t, s.root, "other"))
	writeCalls(t, other, 8)
	index, err := audit.ReadHead(s.root, audit.IndexChain, testKeys(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	closeChain(t, other)
	r, err := audit.SignReceipt(testReceipt(head, index), testKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.WriteReceipt(s.receipt, r); err != nil {
		t.Fatal(err)
	}
	return s
}

func testReceipt(chain, index audit.Head) audit.Receipt {
	at := time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.FixedZone("", 3600))
	return audit.Receipt{
		Session: "k3f9", Group: "family", Started: at, Finished: at.Add(time.Minute), TaskDigest: strings.Repeat("0", 64), Outcome: "merged",
		ReceiptWork: audit.ReceiptWork{Project: "projet é <&>", BaseCommit: "abc", MergeCommit: "def", Brain: "replay", Sandbox: "native", PolicyDigest: strings.Repeat("1", 64)},
		Verdicts:    []audit.ReceiptVerdict{{Check: "go test ./...", Passed: true, Tree: "def"}, {Check: "vet", Detail: "x"}},
		Cost:        audit.ReceiptCost{MicroUSD: 1234}, Counts: audit.ReceiptCounts{Allowed: 3, Denied: 2},
		Facts: map[string]string{"leases": "0"}, Heads: audit.ReceiptHeads{Chain: chain, Index: index},
	}
}

// save keeps a copy of a file beside the root, for an attacker to put back later.
func (s sample) save(name, path string) { s.put("../"+name, s.get(path)) }

func (s sample) get(path string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s sample) put(path string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, path), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s sample) remove(path string) {
	s.t.Helper()
	if _, err := os.Lstat(filepath.Join(s.root, path)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.root, path)); err != nil {
		s.t.Fatal(err)
	}
}

// edit replaces one text of a file; the file must hold it.
func (s sample) edit(path, from, to string) {
	s.t.Helper()
	data := s.get(path)
	if !bytes.Contains(data, []byte(from)) {
		s.t.Fatalf("%s does not hold %s", path, from)
	}
	s.put(path, bytes.Replace(data, []byte(from), []byte(to), 1))
}

// lines changes the lines of a chain's segment.
func (s sample) lines(path string, change func([][]byte) [][]byte) {
	s.t.Helper()
	s.put(path, bytes.Join(change(bytes.SplitAfter(s.get(path), []byte("\n"))), nil))
}

// lastSegment of the chain k3f9.1.
func (s sample) lastSegment() string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.root, "k3f9.1", "*.jsonl"))
	if err != nil || len(names) < 3 {
		s.t.Fatal(names, err)
	}
	return filepath.Join("k3f9.1", filepath.Base(names[len(names)-1]))
}

const first = "k3f9.1/000001.jsonl"

// tampered is what is done to a sample, and which of the two ways of looking finds it.
var tampered = []struct {
	name    string
	do      func(sample)
	chains  bool // a verification of all chains accepts it
	receipt bool // a verification of the receipt accepts it
}{
	{"nothing", func(sample) {}, true, true},
	{"a value is changed", func(s sample) { s.edit(first, `"n":1`, `"n":2`) }, false, false},
	{"a record is inserted", func(s sample) {
		s.lines(first, func(l [][]byte) [][]byte { return append(l[:2:2], append([][]byte{l[1]}, l[2:]...)...) })
	}, false, false},
	{"a record is deleted", func(s sample) {
		s.lines(first, func(l [][]byte) [][]byte { return append(l[:1:1], l[2:]...) })
	}, false, false},
	{"two records change places", func(s sample) {
		s.lines(first, func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l })
	}, false, false},
	{"the first record is deleted", func(s sample) {
		s.lines(first, func(l [][]byte) [][]byte { return l[1:] })
	}, false, false},
	{"the tail is cut off", func(s sample) {
		s.lines(s.lastSegment(), func(l [][]byte) [][]byte { return l[:len(l)-2] })
	}, false, false},
	{"the tail is cut off deeper", func(s sample) { s.put(s.lastSegment(), nil) }, false, false},
	{"the tail is cut off and an older head put back", func(s sample) {
		s.lines(s.lastSegment(), func(l [][]byte) [][]byte { return l[:len(l)-2] })
		s.put("k3f9.1/head.json", s.get("../open-head.json"))
	}, false, false},
	{"the last line is partial", func(s sample) {
		data := s.get(s.lastSegment())
		s.put(s.lastSegment(), data[:len(data)-40])
	}, false, false},
	{"bytes follow the end", func(s sample) { s.put(s.lastSegment(), append(s.get(s.lastSegment()), "x"...)) }, false, false},
	{"a line follows the end", func(s sample) {
		s.lines(s.lastSegment(), func(l [][]byte) [][]byte { return append(l, l[0]) })
	}, false, false},
	{"a middle segment is deleted", func(s sample) { s.remove("k3f9.1/000002.jsonl") }, false, false},
	{"the last segment is deleted", func(s sample) { s.remove(s.lastSegment()) }, false, false},
	{"the head is deleted", func(s sample) { s.remove("k3f9.1/head.json") }, false, false},
	{"the chain is deleted", func(s sample) { s.remove("k3f9.1") }, false, false},
	{"the chain is emptied", func(s sample) { s.remove("k3f9.1"); _ = os.Mkdir(filepath.Join(s.root, "k3f9.1"), 0o700) }, false, false},
	{"another chain is deleted", func(s sample) { s.remove("other") }, false, true},
	{"two heads are swapped", func(s sample) {
		a, b := s.get("k3f9.1/head.json"), s.get("other/head.json")
		s.put("k3f9.1/head.json", b)
		s.put("other/head.json", a)
	}, false, false},
	{"a chain takes another's place", func(s sample) {
		s.remove("k3f9.1")
		if err := os.CopyFS(filepath.Join(s.root, "k3f9.1"), os.DirFS(filepath.Join(s.root, "other"))); err != nil {
			s.t.Fatal(err)
		}
	}, false, false},
	{"a chain is written anew with our own key", func(s sample) {
		s.remove("k3f9.1")
		c := openChain(s.t, options(s.t, s.root, "k3f9.1"))
		writeCalls(s.t, c, 8)
		closeChain(s.t, c)
	}, false, false},
	{"a signature's bit is flipped", func(s sample) {
		data := s.get("k3f9.1/head.json")
		at := bytes.Index(data, []byte(`"signature":"`)) + len(`"signature":"`)
		data[at] ^= 1 // one hex digit for another, or no digit at all
		s.put("k3f9.1/head.json", data)
	}, false, false},
	{"a head's seq is changed", func(s sample) { s.edit("k3f9.1/head.json", `"seq":`, `"seq":1`) }, false, false},
	{"a key is written twice", func(s sample) { s.edit(first, `"group":"family"`, `"group":"family","group":"family"`) }, false, false},
	{"a key is written in capitals", func(s sample) { s.edit(first, `"group"`, `"Group"`) }, false, false},
	{"a key is added", func(s sample) { s.edit(first, `"group"`, `"extra":1,"group"`) }, false, false},
	{"a space is added", func(s sample) { s.edit(first, `"group":`, `"group": `) }, false, false},
	{"an integer becomes a float", func(s sample) { s.edit(first, `"n":1`, `"n":1.0`) }, false, false},
	{"a letter is escaped", func(s sample) { s.edit(first, `"family"`, `"\u0066amily"`) }, false, false},
	{"an escape is unescaped", func(s sample) { s.edit(first, `\u00e9`, "é") }, false, false},
	{"a byte is not UTF-8", func(s sample) { s.edit(first, `"family"`, "\"\xff\"") }, false, false},
	{"a MAC is changed", func(s sample) {
		s.edit(first, `","mac":"`, `","mac":"`+strings.Repeat("0", 64)+`"}`+"\n"+`","mac":"`)
	}, false, false},
	{"the index is deleted", func(s sample) { s.remove("index") }, false, false},
	{"the index is replaced by another installation's", func(s sample) {
		fresh := closedChain(s.t)
		s.remove("index")
		if err := os.CopyFS(filepath.Join(s.root, "index"), os.DirFS(filepath.Join(fresh, "index"))); err != nil {
			s.t.Fatal(err)
		}
	}, false, false},
	{"the index is cut off", func(s sample) {
		s.lines("index/000001.jsonl", func(l [][]byte) [][]byte { return l[:3] })
	}, false, false},
	{"the index is cut off and its older head put back", func(s sample) {
		s.lines("index/000001.jsonl", func(l [][]byte) [][]byte { return l[:3] })
		s.put("index/head.json", s.get("../early-index-head.json"))
	}, false, false},
	{"an empty folder appears beside the chains", func(s sample) { _ = os.Mkdir(filepath.Join(s.root, "stranger"), 0o700) }, true, true},
	{"a folder appears beside the chains", func(s sample) {
		_ = os.Mkdir(filepath.Join(s.root, "stranger"), 0o700)
		s.put("stranger/x", nil)
	}, false, true},
	{"a file appears beside the chains", func(s sample) { s.put("Notes", nil) }, false, true},
	{"a segment is a link", func(s sample) {
		s.save("moved", first)
		s.remove(first)
		if err := os.Symlink("../../moved", filepath.Join(s.root, first)); err != nil {
			s.t.Fatal(err)
		}
	}, false, false},
	{"two records are swapped between chains", func(s sample) {
		a, b := bytes.SplitAfter(s.get(first), []byte("\n")), bytes.SplitAfter(s.get("other/000001.jsonl"), []byte("\n"))
		a[1], b[1] = b[1], a[1]
		s.put(first, bytes.Join(a, nil))
		s.put("other/000001.jsonl", bytes.Join(b, nil))
	}, false, false},
	{"two segments are swapped", func(s sample) {
		a, b := s.get(first), s.get("k3f9.1/000002.jsonl")
		s.put(first, b)
		s.put("k3f9.1/000002.jsonl", a)
	}, false, false},
	{"a segment is a pipe", func(s sample) {
		s.remove(first)
		if err := syscall.Mkfifo(filepath.Join(s.root, first), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}, false, false},
	{"a segment is a folder", func(s sample) {
		s.remove(first)
		_ = os.Mkdir(filepath.Join(s.root, first), 0o700)
	}, false, false},
	{"a head is a pipe", func(s sample) {
		s.remove("k3f9.1/head.json")
		if err := syscall.Mkfifo(filepath.Join(s.root, "k3f9.1/head.json"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}, false, false},
	{"a line is huge", func(s sample) {
		s.put(first, append(bytes.Repeat([]byte("a"), 4<<20), s.get(first)...))
	}, false, false},
	{"a detail is deep", func(s sample) {
		s.edit(first, `"n":1`, `"n":`+strings.Repeat("[", 60_000)+strings.Repeat("]", 60_000))
	}, false, false},
	{"a float of many digits", func(s sample) { s.edit(first, `"n":1`, `"n":1e400`) }, false, false},
	{"an integer of many digits", func(s sample) { s.edit(first, `"n":1`, `"n":`+strings.Repeat("9", 60_000)) }, false, false},
	{"a segment nought appears", func(s sample) { s.put("k3f9.1/000000.jsonl", s.get(first)) }, false, false},
	{"the first segment is deleted", func(s sample) { s.remove(first) }, false, false},
	{"line ends become CRLF", func(s sample) { s.put(first, bytes.ReplaceAll(s.get(first), []byte("\n"), []byte("\r\n"))) }, false, false},
	{"an empty line is added", func(s sample) { s.put(first, append(s.get(first), '\n')) }, false, false},
	{"a byte order mark is added", func(s sample) { s.put(first, append([]byte("\xef\xbb\xbf"), s.get(first)...)) }, false, false},
	{"a hash is in capitals", func(s sample) {
		at := bytes.Index(s.get(first), []byte(`"record_hash":"`)) + 15
		data := s.get(first)
		s.put(first, slices.Concat(data[:at], bytes.ToUpper(data[at:at+64]), data[at+64:]))
	}, false, false},
	{"an open head is put in place of the closed one", func(s sample) { s.put("k3f9.1/head.json", s.get("../open-head.json")) }, true, true},
	{"the receipt's verdict is edited", func(s sample) {
		s.edit("../k3f9.receipt", `"vet","detail":"x","passed":false`, `"vet","detail":"x","passed":true`)
	}, true, false},
	{"the receipt's signature is changed", func(s sample) {
		data := s.get("../k3f9.receipt")
		at := bytes.LastIndex(data, []byte(`"signature":"`)) + len(`"signature":"`)
		data[at] = "01"[(data[at]&1)^1]
		s.put("../k3f9.receipt", data)
	}, true, false},
	{"a key is added to the receipt", func(s sample) { s.edit("../k3f9.receipt", `{"base_commit"`, `{"a":1,"base_commit"`) }, true, false},
	{"a key of the receipt is written twice", func(s sample) { s.edit("../k3f9.receipt", `{"base_commit"`, `{"base_commit":"abc","base_commit"`) }, true, false},
	{"the receipt is cut off", func(s sample) { data := s.get("../k3f9.receipt"); s.put("../k3f9.receipt", data[:len(data)-9]) }, true, false},
	{"the receipt is empty", func(s sample) { s.put("../k3f9.receipt", nil) }, true, false},
}

// K-20, M-59: both verifiers agree on what is good and on what is not.
func TestTamperingIsFoundByGo(t *testing.T) {
	for _, c := range tampered {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newSample(t)
			c.do(s)
			public := testKeys(t).Public()
			_, err := audit.VerifyAll(s.root, audit.VerifyOptions{PublicKey: public})
			check(t, "chains", err, c.chains)
			r, err := audit.ReadReceipt(s.receipt)
			if err == nil {
				_, err = audit.VerifyReceipt(r, s.root, public)
			}
			check(t, "receipt", err, c.receipt)
		})
	}
}

func check(t *testing.T, what string, err error, good bool) {
	t.Helper()
	if good != (err == nil) {
		t.Errorf("%s: have %v, want good: %v", what, err, good)
	}
	if err != nil && !errors.Is(err, audit.ErrTampered) && !errors.Is(err, audit.ErrUnsealed) {
		t.Errorf("%s: %v wraps neither ErrTampered nor ErrUnsealed", what, err)
	}
}

func TestTamperingIsFoundByPython(t *testing.T) {
	python := testpeer.Need(t, "python3")
	key := hex.EncodeToString(testKeys(t).Public())
	for _, c := range tampered {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newSample(t)
			c.do(s)
			runPython(t, python, exitOf(c.chains), "--root", s.root, "--public-key", key)
			runPython(t, python, exitOf(c.receipt), "--root", s.root, "--public-key", key, "--receipt", s.receipt)
		})
	}
}

func exitOf(good bool) int {
	if good {
		return 0
	}
	return 1
}

func runPython(t *testing.T, python string, want int, args ...string) {
	t.Helper()
	// -S: it wants the standard library alone, and what else Python sets up as it starts takes as long as it does
	cmd := exec.Command(python, append([]string{"-BS", "verify_audit.py"}, args...)...)
	out, err := cmd.CombinedOutput()
	if have := cmd.ProcessState.ExitCode(); have != want || bytes.Contains(out, []byte("Traceback")) {
		t.Errorf("%v: have exit %d (%v), want %d\n%s", args, have, err, want, out)
	}
}

func TestPythonVerifierUsage(t *testing.T) {
	python := testpeer.Need(t, "python3")
	s := newSample(t)
	dir := filepath.Join(t.TempDir(), "keys")
	keys, err := audit.LoadKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	key := hex.EncodeToString(testKeys(t).Public())
	mac := filepath.Join(dir, "mac")
	if err := os.WriteFile(mac, []byte(hex.EncodeToString(testKeys(t).MAC())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runPython(t, python, 2)
	runPython(t, python, 2, "--root", s.root)
	runPython(t, python, 2, "--root", s.root, "--public-key", "abc")
	runPython(t, python, 2, "--root", filepath.Join(dir, "none"), "--public-key", key)
	runPython(t, python, 2, "--root", s.root, "--public-key", key, "--chain", "other", "--receipt", s.receipt)
	runPython(t, python, 0, "--root", s.root, "--public-key", key, "--chain", "other", "--mac-key", mac)
	runPython(t, python, 0, "--root", s.root, "--public-key", key, "--chain", "index")
	runPython(t, python, 1, "--root", s.root, "--public-key", key, "--chain", "nobody")
	runPython(t, python, 1, "--root", s.root, "--public-key", key, "--chain", "../etc")
	runPython(t, python, 1, "--root", s.root, "--public-key", filepath.Join(dir, audit.PublicKeyFile))
	runPython(t, python, 1, "--root", s.root, "--public-key", key, "--mac-key", filepath.Join(dir, "audit.mac"))
	if _, err := audit.VerifyAll(s.root, audit.VerifyOptions{PublicKey: testKeys(t).Public(), MACKey: keys.MAC()}); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("another MAC key: have %v", err)
	}
	if _, err := audit.VerifyAll(s.root, audit.VerifyOptions{PublicKey: keys.Public()}); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("another public key: have %v", err)
	}
	if _, err := audit.VerifyAll(s.root, audit.VerifyOptions{}); err == nil {
		t.Error("no public key: verified")
	}
}

// Every record that the chain takes, Python takes too, and the other way round
// nothing that Go refuses.
func TestPythonAgreesOnOddRecords(t *testing.T) {
	python := testpeer.Need(t, "python3")
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "odd"))
	deep := strings.Repeat(`{"a":`, audit.MaxDepth-1) + `[]` + strings.Repeat("}", audit.MaxDepth-1)
	for i, r := range []nacre.Record{
		{Kind: "x", Detail: []byte(deep)},
		{Kind: "x", Detail: []byte(`{}`)},
		{Kind: "x", Detail: []byte(`null`)},
		{Kind: "x", Detail: []byte(`{"b":9007199254740991,"a":-9007199254740991,"A":0,"":[],"é":1,"\ud83d\udc1a":2,"\uffff":3}`)},
		{Kind: "x", Detail: []byte(`{"a":"\u0000\u007f\u0080\u2028\ufeff\uffff\u00e9\/"}`)},
		{Kind: "x", Reason: strings.Repeat("\x00", 5000), Topic: strings.Repeat("\U0001F41A", 5000), Source: "\xff\xfe"},
		{Kind: "x", Time: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Kind: "x", Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)},
		{Kind: "x", Detail: []byte(`{"a":"` + strings.Repeat("a", audit.MaxDetail-8) + `"}`)},
	} {
		if err := c.Commit(t.Context(), r); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	closeChain(t, c)
	if _, err := audit.Verify(root, "odd", trust(t)); err != nil {
		t.Error(err)
	}
	runPython(t, python, 0, "--root", root, "--public-key", hex.EncodeToString(testKeys(t).Public()))
}

func TestReceiptComesBackAsSigned(t *testing.T) {
	s := newSample(t)
	r, err := audit.ReadReceipt(s.receipt)
	if err != nil {
		t.Fatal(err)
	}
	if r.Session != "k3f9" || r.Counts.Denied != 2 || !strings.HasSuffix(fmt.Sprint(r.Started), "02:04:05.12 +0000 UTC") || r.Facts["leases"] != "0" {
		t.Errorf("have %+v", r)
	}
	have, err := audit.VerifyReceipt(r, s.root, testKeys(t).Public())
	if err != nil || have.State != audit.StateClosed {
		t.Errorf("have %+v, %v", have, err)
	}
	if _, err := audit.VerifyReceipt(r, s.root, nil); err == nil {
		t.Error("verified without a key to trust")
	}
	r.Heads.Index = r.Heads.Chain
	if _, err := audit.SignReceipt(r, testKeys(t)); err == nil {
		t.Error("signed a receipt without the index's head")
	}
	if _, err := audit.SignReceipt(audit.Receipt{}, testKeys(t)); err == nil {
		t.Error("signed an empty receipt")
	}
	if err := audit.WriteReceipt(s.receipt, audit.Receipt{}); err == nil {
		t.Error("wrote an unsigned receipt")
	}
}

// K-20: whichever byte of a chain, a head or the index is changed, it is found.
// Only a MAC needs its key.
func TestEveryChangedByteIsFound(t *testing.T) {
	s := newSample(t)
	for _, path := range []string{first, "k3f9.1/head.json", "index/000001.jsonl", "index/head.json"} {
		data := s.get(path)
		step := max(1, len(data)/150)
		for at := 0; at < len(data); at += step {
			for _, to := range []byte{data[at] ^ 1, data[at] ^ 0x20, data[at] ^ 0x80, '\n', 0} {
				if to == data[at] {
					continue
				}
				changed := bytes.Clone(data)
				changed[at] = to
				s.put(path, changed)
				if _, err := audit.VerifyAll(s.root, trust(t)); err == nil {
					t.Errorf("%s: byte %d as %q was not found", path, at, to)
				}
			}
		}
		s.put(path, data)
	}
	if _, err := audit.VerifyAll(s.root, trust(t)); err != nil {
		t.Error(err)
	}
}

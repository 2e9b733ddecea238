package memory_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// How long the made conversations are: LoCoMo's have 19 sessions and 300 turns on average.
const (
	madeSessions = 24
	madeSmall    = 8 // turns of small talk in each session, at least
)

// talkers are the pairs of people who talk, one conversation each.
var talkers = [][2]string{{"Ines", "Malik"}, {"Greta", "Tobias"}, {"Yusuf", "Carmen"}} //nolint:gochecknoglobals // of the tests

// thread is what two people say about one thing, in one session or more.
type thread struct {
	name  string
	slots map[string][]string
	parts [][]string // turns as "a: …" or "b: …"
	asked []asked
}

type asked struct {
	category int
	turns    []int // counted through the thread, from 1
	text     string
}

// threads reads testdata/threads.txt, whose head says how it is written.
func threads(t *testing.T) (list []thread) {
	t.Helper()
	data, err := os.ReadFile("testdata/threads.txt")
	if err != nil {
		t.Fatal(err)
	}
	for n, l := range strings.Split(string(data), "\n") {
		var x *thread
		if len(list) > 0 {
			x = &list[len(list)-1]
		}
		switch first, rest, _ := strings.Cut(l, " "); {
		case l == "" || first == "#":
		case first == "==":
			list = append(list, thread{name: rest, slots: map[string][]string{}, parts: [][]string{nil}})
		case first == "--":
			x.parts = append(x.parts, nil)
		case first == "a:" || first == "b:":
			last := len(x.parts) - 1
			x.parts[last] = append(x.parts[last], l)
		case first == "?":
			head, text, _ := strings.Cut(rest, ": ")
			var q asked
			for i, f := range strings.Fields(head) {
				number, err := strconv.Atoi(f)
				if err != nil {
					t.Fatalf("line %d: %v", n+1, err)
				}
				if i == 0 {
					q.category = number
				} else {
					q.turns = append(q.turns, number)
				}
			}
			q.text = text
			x.asked = append(x.asked, q)
		default:
			x.slots[strings.TrimSuffix(first, ":")] = strings.Split(rest, " | ")
		}
	}
	return list
}

// The form of LoCoMo's files.
type (
	madeTurn struct {
		Speaker string `json:"speaker"`
		ID      string `json:"dia_id"`
		Text    string `json:"text"`
	}
	madeQuestion struct {
		Question string   `json:"question"`
		Evidence []string `json:"evidence"`
		Category int      `json:"category"`
	}
	madeSample struct {
		SampleID     string         `json:"sample_id"`
		Conversation map[string]any `json:"conversation"`
		QA           []madeQuestion `json:"qa"`
	}
)

// told is a thread as one of the two begins it: with what stands in its slots, and
// where its turns come to be.
type told struct {
	thread
	fill     *strings.Replacer
	speakers [2]string
	at       []string // dia_id by turn
}

// converse makes one conversation. The same n gives the same one.
func converse(list []thread, n int) madeSample {
	random := rand.New(rand.NewPCG(uint64(n), 42)) //nolint:gosec // it is to be the same each time
	small := list[len(list)-1].parts[0]
	sessions := make([][]func(id string) madeTurn, madeSessions)
	say := func(session int, x *told, l string) {
		who, text, _ := strings.Cut(l, ": ")
		turn := madeTurn{Speaker: x.speakers[strings.Index("ab", who)], Text: x.fill.Replace(text)}
		sessions[session] = append(sessions[session], func(id string) madeTurn {
			x.at = append(x.at, id)
			turn.ID = id
			return turn
		})
	}
	chat := func(session, lines int) {
		for range lines / 2 {
			x, at := begun(list[len(list)-1], turned(talkers[n], random.IntN(2)), random.IntN(2), random), random.IntN(len(small)/2)*2
			say(session, x, small[at])
			say(session, x, small[at+1])
		}
	}
	for s := range sessions {
		chat(s, madeSmall/2)
	}
	var all []*told
	for _, i := range random.Perm(2 * (len(list) - 1)) {
		x := begun(list[i/2], turned(talkers[n], i%2), i%2, random)
		all = append(all, x)
		session := random.IntN(madeSessions * 2 / 3)
		for _, part := range x.parts {
			for _, l := range part {
				say(session, x, l)
			}
			chat(session, 2)
			session += 1 + random.IntN(madeSessions/3)
			session = min(session, madeSessions-1)
		}
	}
	for s := range sessions {
		chat(s, madeSmall/2)
	}
	return written(n, sessions, all)
}

func turned(pair [2]string, by int) [2]string { return [2]string{pair[by%2], pair[(by+1)%2]} }

// begun fills a thread's slots; the two never have the same in one of them.
func begun(x thread, speakers [2]string, whose int, random *rand.Rand) *told {
	pairs := []string{"{A}", speakers[0], "{B}", speakers[1]}
	names := make([]string, 0, len(x.slots))
	for name := range x.slots {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var of []string
		for i, v := range x.slots[name] {
			if i%2 == whose {
				of = append(of, v)
			}
		}
		pairs = append(pairs, "{"+name+"}", of[random.IntN(len(of))])
	}
	return &told{thread: x, fill: strings.NewReplacer(pairs...), speakers: speakers}
}

// written puts turns and questions in LoCoMo's form.
func written(n int, sessions [][]func(string) madeTurn, all []*told) madeSample {
	sample := madeSample{SampleID: fmt.Sprintf("%s-%s", talkers[n][0], talkers[n][1]), Conversation: map[string]any{"speaker_a": talkers[n][0], "speaker_b": talkers[n][1]}}
	day := time.Date(2023, 3, 4, 9, 15, 0, 0, time.UTC)
	for s, turns := range sessions {
		list := make([]madeTurn, 0, len(turns))
		for i, turn := range turns {
			list = append(list, turn(fmt.Sprintf("D%d:%d", s+1, i+1)))
		}
		name := fmt.Sprintf("session_%d", s+1)
		sample.Conversation[name], sample.Conversation[name+"_date_time"] = list, day.Format("3:04 pm on 2 January, 2006")
		day = day.Add(time.Duration(7*24+s%5) * time.Hour)
	}
	for _, x := range all {
		for _, q := range x.asked {
			m := madeQuestion{Question: x.fill.Replace(q.text), Category: q.category}
			for _, turn := range q.turns {
				if id := x.at[turn-1]; !slices.Contains(m.Evidence, id) {
					m.Evidence = append(m.Evidence, id)
				}
			}
			sample.QA = append(sample.QA, m)
		}
	}
	return sample
}

// madeConversations writes them to a file, as LoCoMo's are.
func madeConversations(t *testing.T) (path string) {
	t.Helper()
	list := threads(t)
	var samples []madeSample
	for n := range talkers {
		samples = append(samples, converse(list, n))
	}
	data, err := json.Marshal(samples)
	path = filepath.Join(t.TempDir(), "made.json")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

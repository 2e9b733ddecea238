package cockpit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// shownDir holds a file of cards for each process that shows some.
	shownDir = "cards"
	// maxShownFile is how much of such a file is read.
	maxShownFile = 8 << 20
	// titleBytes is how much is kept of what a card asked.
	titleBytes = 300
)

// shown is a card as it is kept for the process that comes after this one. Its buttons are good for
// nothing then, and somebody has to take them away (M-47). A line without a person says that a card
// is over, and that its service was told often enough.
type shown struct {
	ID     string          `json:"id"`
	To     person.Identity `json:"to,omitempty"`
	Digest string          `json:"digest,omitempty"`
	Title  string          `json:"title,omitempty"`
}

// shownFile keeps the cards of this process. Its lock ends with the process, however that
// ends: what is in a file without one is left to whoever finds it. The zero value keeps
// nothing.
type shownFile struct{ file *os.File }

// openShown begins a file of cards, and gives what processes that are gone have left.
func openShown(state string) (mine shownFile, left []shown, err error) {
	dir := filepath.Join(state, shownDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return shownFile{}, nil, err
	}
	earlier, err := os.ReadDir(dir)
	if err != nil {
		return shownFile{}, nil, err
	}
	mine.file, err = os.OpenFile(filepath.Join(dir, drawn()), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return shownFile{}, nil, err
	}
	if err := lockShown(mine.file); err != nil {
		return shownFile{}, nil, errors.Join(err, mine.close())
	}
	for _, one := range earlier {
		cards, takeErr := mine.take(filepath.Join(dir, one.Name()))
		left, err = append(left, cards...), errors.Join(err, takeErr)
	}
	return mine, left, err
}

func lockShown(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// take brings what is in the file of a process that is gone into this process's own.
func (s shownFile) take(path string) ([]shown, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil // another process has taken it
	}
	defer func() { _ = file.Close() }() // which gives up the lock
	if lockShown(file) != nil {
		return nil, nil // its process lives
	}
	cards, err := readShown(file)
	if err != nil {
		return nil, err
	}
	for _, card := range cards {
		if err := s.add(card); err != nil {
			return nil, err
		}
	}
	return cards, os.Remove(path)
}

// readShown are the cards of a file that are not over. A line that is none is passed over:
// a process may have been killed while it wrote it.
func readShown(file io.Reader) (cards []shown, err error) {
	at := map[string]int{}
	lines := bufio.NewScanner(io.LimitReader(file, maxShownFile))
	for lines.Scan() {
		var card shown
		if json.Unmarshal(lines.Bytes(), &card) != nil || card.ID == "" {
			continue
		}
		if card.To != "" {
			at[card.ID] = len(cards)
			cards = append(cards, card)
		} else if i, there := at[card.ID]; there {
			cards[i].ID = ""
		}
	}
	open := cards[:0]
	for _, card := range cards {
		if card.ID != "" {
			open = append(open, card)
		}
	}
	return open[max(0, len(open)-maxCards):], lines.Err()
}

// add keeps a line.
func (s shownFile) add(card shown) error {
	if s.file == nil {
		return nil
	}
	card.Title = strings.ToValidUTF8(card.Title[:min(len(card.Title), titleBytes)], "")
	line, err := json.Marshal(card)
	if err != nil {
		return err
	}
	_, err = s.file.Write(append(bytes.TrimSpace(line), '\n'))
	return err
}

func (s shownFile) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

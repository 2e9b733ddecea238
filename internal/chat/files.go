package chat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of files.
const (
	maxFiles    = 10       // of one message
	maxFile     = 8 << 20  // bytes of one that is read
	maxPart     = 72 << 10 // bytes of one answer: a string on the wire has at most 100 KiB, in base64 too
	maxFileName = 64       // bytes
	maxFileID   = 256      // bytes of the service's own name for one
	fetchTime   = 20 * time.Second
)

// File is one that came with a message. ID is the service's own name for it; Size is in bytes, as
// the service says, and 0 where it does not.
type File struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Attachment is a file that is written. Open reads it from its first byte, and it has Bytes.
type Attachment struct {
	Name  string
	Bytes int64
	Open  func(ctx context.Context) io.Reader
}

// ErrTooLarge is what is said of a file that is not read.
var ErrTooLarge = errors.New("the file is too large")

func fileKey(ref string, n int) string { return fmt.Sprintf("file/%s/%d", ref, n) }

// come keeps which files came with a message, and says to the agent how each is read. Names and
// sizes are those that the service tells.
func (c *Channel) come(ref string, files []File) string {
	var notes []string
	for i, f := range files {
		if i == maxFiles {
			return strings.Join(append(notes, fmt.Sprintf("[and %d more files, which cannot be read here]", len(files)-i)), "\n")
		}
		f.Name = shortName(f.Name)
		about := fmt.Sprintf("[file %d is called %q", i+1, f.Name)
		if f.Size > 0 {
			about += fmt.Sprintf(" and has %d bytes", f.Size)
		}
		kept, err := json.Marshal(f)
		if err != nil || f.ID == "" || len(f.ID) > maxFileID || f.Size > maxFile {
			notes = append(notes, about+fmt.Sprintf("; it cannot be read here, where a file has at most %d bytes]", maxFile))
			continue
		}
		c.Kept.Remember(fileKey(ref, i+1), string(kept))
		notes = append(notes, about+fmt.Sprintf("; read_%s_file reads it as \"%s/%d\"]", c.Name, ref, i+1))
	}
	return strings.Join(notes, "\n")
}

// forget drops the files of a message that nobody took.
func (c *Channel) forget(ref string, files []File) {
	for i := range files[:min(len(files), maxFiles)] {
		c.Kept.Remember(fileKey(ref, i+1), "")
	}
}

// shortName is the last part of a file's name, without what is no text.
func shortName(name string) string {
	name = strings.ReplaceAll(path.Base("/"+strings.ReplaceAll(Clean(name), "\\", "/")), "\n", " ")
	for len(name) > maxFileName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	if name = strings.TrimSpace(name); name == "" || name == "/" {
		return "file"
	}
	return name
}

// ReadArgs are the arguments of the tool that reads a file of a chat.
type ReadArgs struct {
	Chat   string `json:"chat"`
	File   string `json:"file"`   // as the message names it
	Offset int64  `json:"offset"` // first byte, from 0
	As     string `json:"as"`     // text or base64
}

// Part is what is read of a file.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"` // of the whole file
	SHA256 string `json:"sha256"`
	// Content is absent where what is not text was asked for as text.
	Content string `json:"content,omitempty"`
	Base64  string `json:"content_base64,omitempty"`
	Offset  int64  `json:"offset"`
	// NextOffset is where to read on; absent at the end.
	NextOffset int64  `json:"next_offset,omitempty"`
	Hint       string `json:"hint,omitempty"`
}

// fetched is the file that was read last, so that its parts are fetched once. It is safe for
// concurrent use.
type fetched struct {
	mu   sync.Mutex
	key  string
	data []byte
}

// Read is the tool by which an agent reads a file that came with a message. A session reads files
// of the chat whose message woke it, and no others.
func (c *Channel) Read(ctx context.Context, r *plugin.Request, args ReadArgs) (any, error) {
	none := Refuse("NOT_FOUND", false, "No such file came with a message of this chat lately: name it as the message does, with the chat of the message")
	ref, number, _ := strings.Cut(args.File, "/")
	n, err := strconv.Atoi(number)
	at, ok := c.Service.PlaceOf(ref)
	woken, _ := c.answers(ctx, r, args.Chat)
	if err != nil || !ok || woken.Message == "" || at.Chat != woken.Chat {
		return nil, none
	}
	var f File
	if json.Unmarshal([]byte(c.Kept.Get(fileKey(ref, n))), &f) != nil {
		return nil, none
	}
	data, err := c.fetch(ctx, fileKey(ref, n), at, f)
	if err != nil {
		return nil, c.notFetched(err)
	}
	if args.Offset < 0 || args.Offset > int64(len(data)) {
		return nil, Refuse("RANGE", false, "The file has %d bytes", len(data))
	}
	return partOf(f.Name, data, args), nil
}

func (c *Channel) fetch(ctx context.Context, key string, at Place, f File) ([]byte, error) {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	if c.file.key == key {
		return c.file.data, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	data, err := c.Service.Fetch(ctx, at, f)
	if err != nil {
		return nil, err
	}
	c.file.key, c.file.data = key, data
	return data, nil
}

func partOf(name string, data []byte, args ReadArgs) Part {
	sum := sha256.Sum256(data)
	p := Part{Name: name, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Offset: args.Offset}
	part := data[args.Offset:min(args.Offset+maxPart, p.Bytes)]
	if args.As == "base64" {
		p.Base64 = base64.StdEncoding.EncodeToString(part)
	} else {
		for cut := 1; cut < utf8.UTFMax && !utf8.Valid(part) && args.Offset+int64(len(part)) < p.Bytes; cut++ {
			part = part[:len(part)-1] // the beginning of a character whose rest is in the next part
		}
		if !utf8.Valid(part) {
			p.Hint = `not text: read it with "as": "base64"`
			return p
		}
		p.Content = string(part)
	}
	if end := args.Offset + int64(len(part)); end < p.Bytes {
		p.NextOffset = end
	}
	return p
}

func (c *Channel) notFetched(err error) error {
	why, _, refused := Refused(err)
	switch {
	case errors.Is(err, ErrTooLarge):
		return Refuse("TOO_LARGE", false, "The file has more than %d bytes, which is the most that is read here", maxFile)
	case !refused:
		return Refuse("UNREACHED", true, "%s did not give the file, or the operator does not list the host where it keeps files", c.Title)
	case why == Revoked:
		return Refuse("AUTH", false, "%s does not know the bot's token: the operator has to give it a new one", c.Title)
	case why == NotTaken:
		return Refuse("NOT_TAKEN", false, "%s does not give the file (%v): it is gone, or the bot may not read it", c.Title, err)
	}
	return Refuse("LATER", true, "%s does not give the file now (%v)", c.Title, err)
}

// Download reads a file. Its error is [ErrTooLarge], [ErrUnreached] or a *[Refusal], and says
// nothing of the address.
func Download(ctx context.Context, client *http.Client, address string, header map[string]string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, ErrUnreached
	}
	said, err := do(client, r, header, maxFile)
	if err != nil {
		return nil, err
	}
	why := Unknown
	switch said.Status {
	case http.StatusOK:
		return said.Data, nil
	case http.StatusTooManyRequests:
		why = TooOften
	case http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		why = NotTaken
	case http.StatusUnauthorized:
		why = Revoked
	}
	return nil, &Refusal{Why: why, Said: fmt.Sprintf("it said %d", said.Status)}
}

// Form is what is posted with a file, as multipart/form-data.
type Form struct {
	// Fields are posted in this order.
	Fields [][2]string
	// Field is the one of the file.
	Field string
	File  Attachment
}

// content is the form, in which the file is read only when it is sent.
func (f Form) content(ctx context.Context) (content, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range f.Fields {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return content{}, err
		}
	}
	if _, err := form.CreateFormFile(f.Field, f.File.Name); err != nil {
		return content{}, err
	}
	before := b.Len()
	if err := form.Close(); err != nil {
		return content{}, err
	}
	around := b.Bytes()
	return content{
		io.MultiReader(bytes.NewReader(around[:before]), f.File.Open(ctx), bytes.NewReader(around[before:])),
		int64(len(around)) + f.File.Bytes, form.FormDataContentType(),
	}, nil
}

package routing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/routing"
)

// seedMessage is the payload of the seed's example.
const seedMessage = `{"channel":"telegram","sender":"channel-specific-identifier","content_type":"text",
	"body":"Hey can you check the weather?","metadata":{"reply_to":null,"attachments":[]}}`

// message is a good payload with one field put in place of its own, or without it.
func message(field, value string) string {
	fields := map[string]string{"channel": `"local"`, "sender": `"ada"`, "content_type": `"text"`, "body": `"hi"`}
	if value == "" {
		delete(fields, field)
	} else {
		fields[field] = value
	}
	var b strings.Builder
	for key, v := range fields {
		fmt.Fprintf(&b, ",%q:%s", key, v)
	}
	return "{" + b.String()[1:] + "}"
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// D-33: the seed's message, and everything at its limits.
func TestAMessageWithinTheLimitsIsRead(t *testing.T) {
	for name, payload := range map[string]string{
		"the seed's":                         seedMessage,
		"without metadata":                   message("metadata", ""),
		"a channel of 64":                    message("channel", quoted(strings.Repeat("c", 64))),
		"a sender of 256 characters":         message("sender", quoted(strings.Repeat("é", 256))),
		"a body of 8192 characters":          message("body", quoted(strings.Repeat("語", 8192))),
		"a body of 8192 escaped pairs":       message("body", `"`+strings.Repeat(`\ud83d\ude00`, 8192)+`"`),
		"a media type":                       message("content_type", `"text/plain; charset=utf-8"`),
		"a reply":                            message("metadata", `{"reply_to":"m-17"}`),
		"a chat":                             message("metadata", `{"chat":"-100200"}`),
		"keys of the channel's own":          message("metadata", `{"thread":{"id":1.5e3,"tags":[null,true]}}`),
		"sixteen attachments":                message("metadata", `{"attachments":[`+strings.Repeat(`{},`, 15)+`{}]}`),
		"metadata of depth 8":                message("metadata", strings.Repeat(`{"a":`, 8)+"1"+strings.Repeat("}", 8)),
		"metadata of 16 KiB":                 message("metadata", `{"a":"`+strings.Repeat("x", 16<<10-8)+`"}`),
		"a session":                          message("metadata", `{"session":"release-2"}`),
		"nulls where a key may be left out":  message("metadata", `{"chat":null,"session":null,"reply_to":null,"attachments":null}`),
		"a sender of look-alikes":            message("sender", quoted("аdа")),
		"line breaks and escapes in a body":  message("body", `"a\nb\u001b[31m\u0000"`),
		"white space around it":              " \n" + message("metadata", "") + "\t",
		"an empty body beside an attachment": `{"channel":"c","sender":"s","content_type":"image/png","body":"","metadata":{"attachments":[{"name":"a.png"}]}}`,
	} {
		if _, err := routing.ParseInbound([]byte(payload)); err != nil {
			t.Errorf("%s: have %v, want it read", name, err)
		}
	}
}

func TestWhatAMessageSaysIsRead(t *testing.T) {
	m, err := routing.ParseInbound([]byte(`{"channel":"chat","sender":"U1","content_type":"text","body":"hi\nthere",
		"metadata":{"chat":"C9","reply_to":"m1","session":"work","attachments":[{"name":"a"}],"x":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	have := fmt.Sprintf("%s|%s|%s|%q|%s|%s|%s|%d|%s", m.Channel, m.Sender, m.ContentType, m.Body, m.Chat, m.ReplyTo, m.Session, len(m.Attachments), m.Attachments[0])
	if want := `chat|U1|text|"hi\nthere"|C9|m1|work|1|{"name":"a"}`; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	if !strings.Contains(string(m.Metadata), `"x":1`) {
		t.Errorf("have %s, want the channel's own keys kept", m.Metadata)
	}
}

// D-33: everything else is refused by an error that names the field, and that
// repeats nothing of what it held.
func TestAMessageThatIsNoneIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ payload, field string }{
		"no channel":                           {message("channel", ""), "channel"},
		"no sender":                            {message("sender", ""), "sender"},
		"no content_type":                      {message("content_type", ""), "content_type"},
		"no body":                              {message("body", ""), "body"},
		"an empty channel":                     {message("channel", `""`), "channel"},
		"an empty sender":                      {message("sender", `""`), "sender"},
		"an empty content_type":                {message("content_type", `""`), "content_type"},
		"an empty body":                        {message("body", `""`), "body"},
		"a channel of 65":                      {message("channel", quoted(strings.Repeat("c", 65))), "channel"},
		"a channel in capitals":                {message("channel", `"Local"`), "channel"},
		"a channel with a slash":               {message("channel", `"local/sender"`), "channel"},
		"a channel with a look-alike":          {message("channel", quoted("lоcal")), "channel"},
		"a sender of 257":                      {message("sender", quoted(strings.Repeat("é", 257))), "sender"},
		"a sender with a line break":           {message("sender", `"ada\nroot"`), "sender"},
		"a sender with a zero byte":            {message("sender", `"ada\u0000"`), "sender"},
		"a sender that is a number":            {message("sender", `7`), "sender"},
		"a sender that is null":                {message("sender", `null`), "sender"},
		"a content_type with a line break":     {message("content_type", `"text\nplain"`), "content_type"},
		"a content_type of 129":                {message("content_type", quoted(strings.Repeat("t", 129))), "content_type"},
		"a body of 8193":                       {message("body", quoted(strings.Repeat("x", 8193))), "body"},
		"a body that is a list":                {message("body", `["hi"]`), "body"},
		"metadata that is null":                {message("metadata", `null`), "metadata"},
		"metadata that is a list":              {message("metadata", `[]`), "metadata"},
		"metadata over 16 KiB":                 {message("metadata", `{"a":"`+strings.Repeat("x", 16<<10)+`"}`), "metadata"},
		"metadata of depth 9":                  {message("metadata", strings.Repeat(`{"a":`, 9)+"1"+strings.Repeat("}", 9)), ""},
		"a chat that is a number":              {message("metadata", `{"chat":5}`), "metadata.chat"},
		"an empty chat":                        {message("metadata", `{"chat":""}`), "metadata.chat"},
		"a chat of 257":                        {message("metadata", `{"chat":"`+strings.Repeat("c", 257)+`"}`), "metadata.chat"},
		"a reply_to that is an object":         {message("metadata", `{"reply_to":{}}`), "metadata.reply_to"},
		"seventeen attachments":                {message("metadata", `{"attachments":[`+strings.Repeat(`{},`, 16)+`{}]}`), "metadata.attachments"},
		"attachments that are an object":       {message("metadata", `{"attachments":{}}`), "metadata.attachments"},
		"an attachment that is a string":       {message("metadata", `{"attachments":[{},"a"]}`), "metadata.attachments.1"},
		"an attachment that is null":           {message("metadata", `{"attachments":[null]}`), "metadata.attachments.0"},
		"a session in capitals":                {message("metadata", `{"session":"Work"}`), "metadata.session"},
		"a session that climbs":                {message("metadata", `{"session":"../other"}`), "metadata.session"},
		"a session of 65":                      {message("metadata", `{"session":"`+strings.Repeat("s", 65)+`"}`), "metadata.session"},
		"an unknown key":                       {message("group", `"other"`), ""},
		"a key in capitals":                    {message("Body", `"x"`), ""},
		"a key twice":                          {`{"channel":"a","channel":"b","sender":"s","content_type":"text","body":"x"}`, ""},
		"a chat twice":                         {message("metadata", `{"chat":"a","chat":"b"}`), ""},
		"a chat twice in another case":         {message("metadata", `{"chat":"a","Chat":"b"}`), ""},
		"a list":                               {`[]`, ""},
		"null":                                 {`null`, ""},
		"nothing":                              {``, ""},
		"two values":                           {seedMessage + seedMessage, ""},
		"bytes that are not UTF-8":             {"{\"channel\":\"a\xff\"}", ""},
		"half a surrogate pair":                {message("sender", `"\ud83d"`), ""},
		"a payload over the limit":             {message("metadata", `{}`+strings.Repeat(" ", 256<<10)), ""},
		"a number that takes a gigabyte to be": {message("metadata", `{"a":1e999999999}`), ""},
	} {
		_, err := routing.ParseInbound([]byte(test.payload))
		var refused *routing.FieldError
		if !errors.As(err, &refused) || refused.Field != test.field {
			t.Errorf("%s: have %v, want %q refused", name, err, test.field)
		}
	}
}

func TestAnErrorRepeatsNoValue(t *testing.T) {
	for _, field := range []string{"channel", "sender", "content_type", "body"} {
		const secret = "hunter2-hunter2"
		_, err := routing.ParseInbound([]byte(message(field, quoted(secret+strings.Repeat("\n", 9000)))))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: have %v", field, err)
		}
	}
}

func FuzzParseInbound(f *testing.F) {
	corpus.Add(f, []byte(seedMessage))
	corpus.Add(f, []byte(message("metadata", `{"chat":"c","session":"s","attachments":[{}],"reply_to":"r"}`)))
	corpus.Add(f, []byte(message("sender", `"\u0000"`)))
	corpus.Add(f, []byte(`{"channel":"a","body":"","metadata":{"attachments":[ {} , null ]}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := routing.ParseInbound(payload)
		var refused *routing.FieldError
		if err != nil {
			if !errors.As(err, &refused) {
				t.Fatalf("have %T, want a FieldError", err)
			}
			return
		}
		for _, s := range []string{m.Channel, m.Sender, m.ContentType} {
			if s == "" || strings.IndexFunc(s, unicode.IsControl) >= 0 || utf8.RuneCountInString(s) > 256 {
				t.Fatalf("have %q", s)
			}
		}
		if utf8.RuneCountInString(m.Body) > routing.MaxBody || m.Body == "" && len(m.Attachments) == 0 || !json.Valid(m.Metadata) {
			t.Fatalf("have %+v", m)
		}
	})
}

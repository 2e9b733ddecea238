package plugin

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
)

// ProtocolVersion is the version that initialize announces.
const ProtocolVersion = 1

// MaxResult is the largest result of a request, in bytes (D-14).
const MaxResult = 1 << 20

// MaxFiles is how much the files of one request hold, in bytes, unless the tool says file_bytes.
const MaxFiles = 1 << 20

// MaxFileBytes is the most that a tool's file_bytes says, in bytes.
const MaxFileBytes = 64 << 20

// FilePart is how many bytes one answer to readFile brings; the last part has less.
const FilePart = 256 << 10

// What the host asks of a handler (D-21). Initialize, HandleRequest, Verify
// and Shutdown are requests; HandleEvent and Cancel are notifications.
const (
	MethodInitialize    = "initialize"
	MethodHandleRequest = "handleRequest"
	MethodVerify        = "verify"
	MethodHandleEvent   = "handleEvent"
	MethodCancel        = "cancel"
	MethodShutdown      = "shutdown"
)

// What a handler may ask of the host while it works on a request. Each call
// quotes the request's ticket and dies with it (D-26). A channel's own ticket
// is good for publishEvent and readCredential as long as its process lives.
const (
	MethodAuditLog    = "getAuditLog"
	MethodToolCatalog = "getToolCatalog"
	MethodSessionInfo = "getSessionInfo"
	MethodCredential  = "readCredential" //nolint:gosec // the name of a method
	MethodPublish     = "publishEvent"
	MethodReadFile    = "readFile"
)

// The numbers of JSON-RPC errors.
const (
	RPCInvalidRequest = -32600
	RPCUnknownMethod  = -32601
	RPCInvalidParams  = -32602
	RPCInternal       = -32603
	RPCToolError      = -32000
	RPCRefused        = -32001
)

// Message is one line in either direction: a request has Method and ID, a
// notification Method alone, an answer ID with Result or Error.
type Message struct {
	JSONRPC string          `json:"jsonrpc"` // always "2.0"
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *RPCError       `json:"error,omitempty"`
}

// RPCError is the error of an answer.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// InitializeParams come once, before anything else.
type InitializeParams struct {
	Protocol int              `json:"protocol"`
	Plugin   nacre.PluginName `json:"plugin"`
	// Config fits the manifest's config_schema; an object, never null.
	Config json.RawMessage `json:"config"`
	// DataDir is the one directory the handler may write to.
	DataDir string `json:"data_dir"`
	// Ticket is good for readCredential until initialize is answered.
	Ticket string `json:"ticket"`
	// ChannelTicket is good as long as the process lives, for readCredential and
	// for events of the topic [TopicInbound] from the manifest's channels. It is
	// absent where the plugin provides none or the host serves none.
	ChannelTicket string `json:"channel_ticket,omitempty"`
}

// VerifyParams ask whether the credentials and the network are such that the
// handler can work (D-29). The answer is null, or a [ToolError] with a category
// as its code.
type VerifyParams struct {
	// Ticket is good for readCredential until verify is answered.
	Ticket string `json:"ticket"`
}

// TopicInbound is the topic of messages that channels receive (D-33). The
// payload's key channel names the channel.
const TopicInbound = "message.inbound"

// The topics by which a channel shows questions to persons and brings their presses (M-47).
// The host sends a [Card] as an event of [TopicCard] to the plugin of a channel that
// subscribes to it. A channel's ticket is good for a [Press] on [TopicPress], whose answer is
// a [Pressed], and for a [Pairing] on [TopicPair], whose answer is a code or nothing.
const (
	TopicCard  = "confirmation.card"
	TopicPress = "confirmation.press"
	TopicPair  = "confirmation.pair"
	// TopicCommand is that of a [Command], whose answer is what to say to whoever asked alone,
	// or nothing.
	TopicCommand = "confirmation.command"
)

// Card is a question as one person is shown it. The same card comes again until it is over:
// show it once, by its ID.
type Card struct {
	Channel string `json:"channel"`
	// To is the person's id that never changes, as the channel gave it.
	To string `json:"to"`
	ID string `json:"id"`
	// Text is plain, and all of it has to be shown.
	Text string `json:"text"`
	// Buttons are none where the question is over: the card that was shown is to be
	// replaced by this one.
	Buttons []Button `json:"buttons,omitempty"`
}

// Button is one of a card's. ID is what a press brings back, at most 16 bytes of a-z and 0-9;
// it says nothing of what it does.
type Button struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// Press says who pressed which button. The host knows whose card it was and decides. The person is
// the one of the channel that the plugin serves, and of no other.
type Press struct {
	Channel string `json:"channel"`
	// User is the id that never changes of whoever pressed, as the service gave it.
	User   string `json:"user"`
	Button string `json:"button"`
}

// Pressed is what became of a press.
type Pressed struct {
	// Said is for whoever pressed alone; empty tells them nothing.
	Said string `json:"said,omitempty"`
	// Refused says that the press decided nothing.
	Refused bool `json:"refused,omitempty"`
	// Over says that no button of the card is good any more.
	Over bool `json:"over,omitempty"`
}

// Pairing is somebody who asks to become an operator's identity.
type Pairing struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
}

// The commands that a person gives the host itself.
const (
	CommandStatus  = "status"  // what runs
	CommandWaiting = "waiting" // all that waits for the person
	CommandKill    = "kill"    // stops a session
)

// Command is what somebody asks of the host, and of no agent.
type Command struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
	// Name is [CommandStatus], [CommandWaiting] or [CommandKill].
	Name string `json:"name"`
	// Session is the one that is stopped.
	Session string `json:"session,omitempty"`
}

// ErrDropped says that the host took a message and dropped it, with a record:
// no route leads to a group, or the payload is none. Sending it again is no use.
var ErrDropped = errors.New("the message was dropped: no route of the installation takes it")

// MaxEvent is the largest payload of an event, in bytes.
const MaxEvent = 64 << 10

// RequestParams carry one tool call.
type RequestParams struct {
	Ticket string `json:"ticket"`
	// TimeoutMS is how many milliseconds the host will wait (D-14).
	TimeoutMS int64    `json:"timeout_ms"`
	Envelope  Envelope `json:"envelope"`
	// Files are the files that the arguments name, by the dotted path of the
	// argument with the numbers of list elements in it.
	Files map[string]File `json:"files,omitempty"`
}

// File is a file as it was when the call was decided on (D-13). It has all of it, or where the tool
// says file_bytes, all but Content, which the handler reads with readFile.
type File struct {
	// Name is what the argument says.
	Name string `json:"name"`
	// SHA256 is the digest of what the file holds, in lower-case hex.
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	Content []byte `json:"content_base64"` // null where it is read with readFile
}

// EventParams carry one event; it has no answer and no ticket.
type EventParams struct {
	Envelope Envelope `json:"envelope"`
}

// CancelParams tell that the answer to a request is no longer awaited.
type CancelParams struct {
	ID json.RawMessage `json:"id"`
}

// Envelope is the seed's envelope (D-05), built by the host alone: a handler
// can rely on every field.
type Envelope struct {
	ID          string             `json:"id"`
	Version     int                `json:"version"`
	Type        string             `json:"type"` // "request" or "event"
	Topic       string             `json:"topic"`
	Source      string             `json:"source"`
	Correlation *nacre.Correlation `json:"correlation"`
	Timestamp   time.Time          `json:"timestamp"`
	Group       nacre.Group        `json:"group"`
	// Payload is {"arguments": {…}} for a request.
	Payload json.RawMessage `json:"payload"`
}

// RequestPayload is the payload of a request's envelope.
type RequestPayload struct {
	Arguments json.RawMessage `json:"arguments"`
}

// Service is the parameters of every call to the host; each method uses its own part.
type Service struct {
	Ticket  string          `json:"ticket"`
	Filters *AuditFilter    `json:"filters,omitempty"` // getAuditLog
	Key     string          `json:"key,omitempty"`     // readCredential
	Topic   string          `json:"topic,omitempty"`   // publishEvent
	Payload json.RawMessage `json:"payload,omitempty"` // publishEvent
	// Argument names the file that readFile reads, as a key of [RequestParams].Files does,
	// and Offset its first byte. The answer is a string in base64, of [FilePart] bytes at most.
	Argument string `json:"argument,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
}

// AuditFilter selects records of the request's own group. Group and session
// are not keys of it: the host sets them.
type AuditFilter struct {
	Correlation nacre.Correlation `json:"correlation,omitempty"`
	Topic       string            `json:"topic,omitempty"`
	Outcome     string            `json:"outcome,omitempty"`
	LastN       int               `json:"last_n,omitempty"`
	Since       time.Time         `json:"since,omitzero"`
	Until       time.Time         `json:"until,omitzero"`
}

// ToolError is a failure meant for the agent's eyes. Every other error tells
// the agent only that the plugin failed, so write Message for it, and do not
// pass on what a library said (D-21).
type ToolError struct {
	// Code is the plugin's own, such as "NOT_FOUND"; the agent sees HANDLER_ERROR.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Retriable says whether the same call may succeed later.
	Retriable bool `json:"retriable"`
}

func (e *ToolError) Error() string { return e.Code + ": " + e.Message }

// ParseToolError reads error.data. Only {code, message, retriable} with all
// three present and typed is a ToolError; ok is false for anything else.
func ParseToolError(data json.RawMessage) (e *ToolError, ok bool) {
	var d struct {
		Code      *string `json:"code"`
		Message   *string `json:"message"`
		Retriable *bool   `json:"retriable"`
	}
	if json.Unmarshal(data, &d) != nil || d.Code == nil || d.Message == nil || d.Retriable == nil || *d.Code == "" {
		return nil, false //nolint:nilerr // ok says it
	}
	return &ToolError{Code: *d.Code, Message: *d.Message, Retriable: *d.Retriable}, true
}

// The categories of a failed start (D-23). A handler's initialize and verify
// may fail with a [ToolError] that has one of them as its code.
const (
	CategoryNetwork  = "NETWORK_ERROR"
	CategoryAuth     = "AUTH_ERROR"
	CategoryConfig   = "CONFIG_ERROR"
	CategoryInternal = "INTERNAL_ERROR"
)

package ipc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

// PathVariable names the environment variable that overrides the socket's
// path, for runs outside a sandbox. A path is not an identity: who may connect
// is the door's to say.
const PathVariable = "NACRE_DOOR"

// The codes of errors that come from ipc itself, not from the door.
const (
	// CodeTimeout is that no answer came: none in time, or none before the socket ended.
	CodeTimeout nacre.Code = "IPC_TIMEOUT"
	// CodeOutput is that the answer came and could not be written to stdout.
	CodeOutput nacre.Code = "IPC_OUTPUT"
	// CodeProtocol is that what came was not an answer.
	CodeProtocol nacre.Code = "IPC_PROTOCOL"
	// CodeUsage is that ipc was not called as it has to be.
	CodeUsage nacre.Code = "USAGE"
)

// The exit codes.
const (
	exitError = 1
	exitUsage = 2
)

const (
	// attempts to connect, and the pause after the first; it doubles.
	attempts   = 4
	firstPause = 50 * time.Millisecond
	// shutAttempts are those where a door is there and lets nobody in: it is full, and
	// has room when a time for handshakes is over. longestPause is between them.
	shutAttempts = 16
	longestPause = time.Second
)

const help = `usage: ipc [hints] TOOL ARGUMENTS    call a tool
       ipc [hints] TOOL -            read the arguments from standard input
       ipc --list                    list the tools that there are
       ipc --connect HOST:PORT       lead standard input and output there through the
                                     session's proxy, as ssh's ProxyCommand does

TOOL is a name such as create_reminder, or tool.invoke.create_reminder.
ARGUMENTS is a JSON object; {} for none.

hints, recorded and never counted as authority:
  --justification TEXT   why the call is made
  --mode MODE            how much of the result is wanted
  --dry-run              check the call, do not carry it out

On success the payload {"result":…,"error":null} is on standard output, exit 0.
On an error one JSON object {"code":…,"message":…,"retriable":…} is on standard
error, exit 1, or exit 2 where ipc was not called like this.
`

// Main is the program: args are without its name. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == connectFlag {
		return connectThrough(egressProxy(), args[1], Streams{stdin, stdout, stderr})
	}
	return Run(Door(), args, Streams{stdin, stdout, stderr})
}

// Door is the Dialer of the door that this process was given.
func Door() Dialer {
	path := os.Getenv(PathVariable)
	if path == "" {
		path = nacre.SocketDir + "/" + nacre.DoorSocket
	}
	return Socket(path)
}

// Streams are what a program reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run is Main for the door that dial reaches.
func Run(dial Dialer, args []string, s Streams) int {
	line, err := parse(args)
	if err != nil {
		return s.fail(exitUsage, &nacre.Refusal{Code: CodeUsage, Message: err.Error() + "; ipc --help says more"})
	}
	if line.help {
		return s.write([]byte(help))
	}
	request, refusal := line.request(s.In)
	if refusal != nil {
		return s.fail(exitOf(refusal), refusal)
	}
	answer := Ask(context.Background(), dial, request, nil)
	if answer.Failure != nil {
		_, _ = s.Err.Write(append(answer.Failure, '\n')) // there is nowhere else to say it
		return exitError
	}
	return s.write(append(answer.Payload, '\n'))
}

func exitOf(r *nacre.Refusal) int {
	if r.Code == CodeUsage {
		return exitUsage
	}
	return exitError
}

// fail writes the one error object.
func (s Streams) fail(code int, r *nacre.Refusal) int {
	_, _ = s.Err.Write(append(message.AppendRefusal(nil, r), '\n')) // there is nowhere else to say it
	return code
}

func (s Streams) write(b []byte) int {
	if _, err := s.Out.Write(b); err != nil {
		return s.fail(exitError, &nacre.Refusal{Code: CodeOutput, Message: "the answer came, but could not be written: " + err.Error()})
	}
	return 0
}

// Answer is what came of one request: a result, or an error object of the
// door's, a handler's or the client's own.
type Answer struct {
	// Payload is the whole of a success, as it came.
	Payload json.RawMessage
	Result  json.RawMessage
	// Failure is {"code":…,"message":…,"retriable":…}; nil on success.
	Failure json.RawMessage
}

func failed(r *nacre.Refusal) Answer { return Answer{Failure: message.AppendRefusal(nil, r)} }

// Ask sends the request once to the door that dial reaches, and waits for its
// answer as [Client.Call] does. Only connecting is tried again, since until then
// nothing can have been carried out. asked, where it is not nil, is told how
// long a person has who is asked. When ctx ends, so does the connection, and
// the door withdraws the request and its question.
func Ask(ctx context.Context, dial Dialer, request message.Request, asked func(left time.Duration)) Answer {
	if size := len(request.Append(nil)); size > wire.MaxMessage {
		return failed(message.Malformed("", fmt.Sprintf("the message of %d bytes is over the limit of %d", size, wire.MaxMessage)))
	}
	client, err := connect(ctx, dial)
	if err != nil {
		return failed(&nacre.Refusal{Code: CodeTimeout, Message: "the door does not answer, and nothing was sent: " + pathless(err), Retriable: true})
	}
	defer func() { _ = client.Close() }() // the answer is here, or none will come
	client.asked = asked
	response, err := client.Call(ctx, request)
	if err != nil {
		return failed(unanswered(err, request.Correlation))
	}
	result, failure, err := message.Payload(response.Payload)
	if err != nil {
		return failed(unanswered(fmt.Errorf("%w: %w", errAnswer, err), request.Correlation))
	}
	return Answer{Payload: response.Payload, Result: result, Failure: failure}
}

// unanswered is the error of a request that was sent and got no answer.
func unanswered(err error, correlation nacre.Correlation) *nacre.Refusal {
	code, why := CodeTimeout, "the door ended the connection"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "no answer came in time"
	case errors.Is(err, context.Canceled):
		why = "the call was given up"
	case errors.Is(err, errAnswer), errors.Is(err, zmtp.ErrProtocol), errors.Is(err, zmtp.ErrTooLarge):
		code, why = CodeProtocol, "what came is not an answer"
	}
	return &nacre.Refusal{
		Code:    code,
		Message: fmt.Sprintf(`%s (%s); the call may have been carried out: get_diagnostics {"correlation":"%s"} tells`, why, pathless(err), correlation),
	}
}

// pathless says what went wrong with a connection without where it leads: the other end
// of the socket has its name from the host.
func pathless(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

func connect(ctx context.Context, dial Dialer) (*Client, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		client, err := Dial(ctx, dial)
		most := attempts
		if isShut(err) {
			most = shutAttempts
		}
		if err == nil || attempt >= most || ctx.Err() != nil {
			return client, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
}

// isShut tells a door that closed the connection at once from one that is not there, or
// says nothing.
func isShut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// NewCorrelation is an id that no other call has by chance. It is no secret
// and no identity, so it needs no more than that.
func NewCorrelation() nacre.Correlation {
	return nacre.Correlation(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())) //nolint:gosec // it is no secret: see above
}

// Call asks the door that is bound into this sandbox, with a correlation of its
// own. One of result and failure is set.
func Call(ctx context.Context, tool string, arguments json.RawMessage) (result, failure json.RawMessage) {
	answer := Ask(ctx, Door(), NewRequest(tool, NewCorrelation(), arguments), nil)
	return answer.Result, answer.Failure
}

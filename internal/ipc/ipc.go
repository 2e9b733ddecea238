package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
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
)

const help = `usage: ipc [hints] TOOL ARGUMENTS    call a tool
       ipc [hints] TOOL -            read the arguments from standard input
       ipc --list                    list the tools that there are

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
	path := os.Getenv(PathVariable)
	if path == "" {
		path = nacre.SocketDir + "/" + nacre.DoorSocket
	}
	return Run(Socket(path), args, Streams{stdin, stdout, stderr})
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
	response, refusal := call(context.Background(), dial, request)
	if refusal != nil {
		return s.fail(exitError, refusal)
	}
	_, failure, err := wire.Payload(response.Payload)
	switch {
	case err != nil:
		return s.fail(exitError, &nacre.Refusal{Code: CodeProtocol, Message: "what came is not an answer: " + err.Error()})
	case failure != nil:
		_, _ = s.Err.Write(append(failure, '\n')) // there is nowhere else to say it
		return exitError
	}
	return s.write(append(response.Payload, '\n'))
}

func exitOf(r *nacre.Refusal) int {
	if r.Code == CodeUsage {
		return exitUsage
	}
	return exitError
}

// fail writes the one error object.
func (s Streams) fail(code int, r *nacre.Refusal) int {
	_, _ = s.Err.Write(append(wire.AppendRefusal(nil, r), '\n')) // there is nowhere else to say it
	return code
}

func (s Streams) write(b []byte) int {
	if _, err := s.Out.Write(b); err != nil {
		return s.fail(exitError, &nacre.Refusal{Code: CodeOutput, Message: "the answer came, but could not be written: " + err.Error()})
	}
	return 0
}

// call sends the request once. Only connecting is tried again, since until
// then nothing can have been carried out.
func call(ctx context.Context, dial Dialer, request wire.Request) (wire.Envelope, *nacre.Refusal) {
	client, err := connect(ctx, dial)
	if err != nil {
		return wire.Envelope{}, &nacre.Refusal{Code: CodeTimeout, Message: "the door does not answer, and nothing was sent: " + err.Error(), Retriable: true}
	}
	defer func() { _ = client.Close() }() // the answer is here, or none will come
	response, err := client.Call(ctx, request)
	if err == nil {
		return response, nil
	}
	why := "the door ended the connection"
	if errors.Is(err, context.DeadlineExceeded) {
		why = "no answer came in time"
	}
	return wire.Envelope{}, &nacre.Refusal{
		Code:    CodeTimeout,
		Message: fmt.Sprintf(`%s (%v); the call may have been carried out: get_diagnostics {"correlation":"%s"} tells`, why, err, request.Correlation),
	}
}

func connect(ctx context.Context, dial Dialer) (*Client, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		client, err := Dial(ctx, dial)
		if err == nil || attempt == attempts {
			return client, err
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// newCorrelation is an id that no other call has by chance. It is no secret
// and no identity, so it needs no more than that.
func newCorrelation() nacre.Correlation {
	return nacre.Correlation(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
}

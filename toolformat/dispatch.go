package toolformat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
)

// Caller carries out calls; a kernel is one.
type Caller interface {
	Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error)
}

// CallHook sees a call before it is authorised, and may change its tool and
// arguments: what it returns is what is authorised. An error or a panic refuses
// the call. It cannot change whom the call acts for.
type CallHook func(ctx context.Context, c nacre.Call) (nacre.Call, error)

// Dispatcher carries out the tool calls of a model's responses. All fields but
// Hooks are required.
type Dispatcher struct {
	Format *Format
	Caller Caller
	// Principal is whom all calls act for; nothing in a response changes it.
	Principal nacre.Principal
	// Hooks run in order.
	Hooks []CallHook
	// NewID gives each call an id of the host's.
	NewID func() (string, error)
}

// Dispatch carries out the calls of a response one after the other, and returns a message for each,
// in order. A call that fails does not stop the next. The error names calls that could not be
// answered, with the messages for the others. Where the response cannot be read there are none, and
// nothing ran.
func (d *Dispatcher) Dispatch(ctx context.Context, response []byte) ([]json.RawMessage, error) {
	if d.Format == nil || d.Caller == nil || d.NewID == nil || d.Principal.ID == "" {
		return nil, errors.New("dispatcher: Format, Caller, Principal and NewID are needed")
	}
	calls, err := d.Format.Parse(response)
	if err != nil {
		return nil, err
	}
	messages := make([]json.RawMessage, 0, len(calls))
	var unanswered error
	for i, c := range calls {
		message, err := d.answer(ctx, c)
		if err != nil {
			unanswered = errors.Join(unanswered, fmt.Errorf("call %d: %w", i+1, err))
			continue
		}
		messages = append(messages, message)
	}
	return messages, unanswered
}

func (d *Dispatcher) answer(ctx context.Context, c Call) (json.RawMessage, error) {
	switch {
	case c.ID == "":
		return nil, errors.Join(c.Err, errors.New("nothing was carried out")) // nobody would hear how it went
	case c.Err != nil:
		return d.Format.failure(c, prefixInvalid+c.Err.Error())
	}
	capability, known := d.Format.find(c.Capability)
	if !known {
		return d.Format.failure(c, prefixUnknown+string(c.Capability))
	}
	id, err := d.NewID()
	if err != nil {
		return d.Format.Error(c, err)
	}
	call := nacre.Call{
		ID: id, Principal: d.Principal, Tool: capability.Tool, Arguments: c.Arguments,
		Hints: nacre.Hints{Justification: c.Justification},
	}
	if correlation, err := nacre.ParseCorrelation(c.ID); err == nil {
		call.Correlation = correlation
	}
	for _, hook := range d.Hooks {
		hooked, refusal := intercept(ctx, hook, call)
		if refusal != "" {
			return d.Format.failure(c, refusal)
		}
		hooked.ID, hooked.Principal = call.ID, d.Principal
		call = hooked
	}
	outcome, err := d.Caller.Call(ctx, call)
	if err != nil {
		return d.Format.Error(c, err)
	}
	return d.Format.Outcome(c, outcome)
}

// intercept runs a hook. One that refuses in order is quoted to the model; of
// one that failed it learns no more than that.
func intercept(ctx context.Context, hook CallHook, c nacre.Call) (hooked nacre.Call, refusal string) {
	defer func() {
		if recover() != nil {
			hooked, refusal = nacre.Call{}, prefixRaised+messageFailure
		}
	}()
	hooked, err := hook(ctx, c)
	var refused *nacre.Refusal
	switch {
	case err == nil:
		return hooked, ""
	case errors.As(err, &refused) && refused != nil:
		return nacre.Call{}, prefixAborted + refused.Message
	}
	return nacre.Call{}, prefixRaised + messageFailure
}

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"github.com/nacre-dev/nacre/plugin"
)

// maxPublished is the largest message of a publisher, in bytes: a topic, and a
// payload in an envelope.
const maxPublished = events.MaxTopic + MaxPayload + 8<<10

// ServePublisher lets one outsider publish over ZeroMQ: whoever connects to the
// listener with a PUB is p. The host subscribes to p's prefixes at once and
// takes the frames [topic, payload]; source and group are p's whatever the
// frames claim. The payload may come in an envelope, of which nothing else is
// believed; one of another version than 1 is dropped (D-05). What is refused is
// accounted for to Deps.Dropped and costs the publisher nothing else.
// ServePublisher returns when ctx ends or the bus is closed, which are no
// errors. It closes the listener.
func (b *Bus) ServePublisher(ctx context.Context, ln net.Listener, p events.Publisher, l Limits) error {
	defer func() { _ = ln.Close() }() // closed already where ctx ended
	if err := p.Check(); err != nil {
		return err
	}
	in := &intake{bus: b, publisher: p}
	in.endpoint = endpoint{
		name: p.Name, limits: l.withDefaults(), kind: typeSUB, takes: []string{typePUB, typeXPUB},
		maxMessage: maxPublished, serve: in.serve, dropped: tally{report: b.deps.Dropped},
	}
	ctx, stop := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-b.ended:
			stop()
		case <-ctx.Done():
		}
	})
	err := in.endpoint.run(ctx, ln)
	stop()
	waiting.Wait()
	return err
}

// intake is one publisher's SUB endpoint.
type intake struct {
	bus       *Bus
	publisher events.Publisher
	endpoint  endpoint
}

func (in *intake) serve(ctx context.Context, p *peer) error {
	defer context.AfterFunc(ctx, func() { _ = p.nc.Close() })()
	for _, prefix := range in.publisher.Prefixes {
		if err := p.write(zmtp.AppendSubscription(nil, p.r.Peer(), prefix, true)); err != nil {
			return err
		}
	}
	for {
		item, err := p.next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zmtp.ErrTooLarge):
			in.endpoint.drop(DropSize, fmt.Sprintf("a message over %d bytes, or of more than two parts", maxPublished))
			continue
		case err != nil:
			return err
		case item.Command != "":
			if err := p.answer(item); err != nil {
				return err
			}
			continue
		}
		in.take(ctx, item.Parts)
	}
}

// answer is for a peer to which nobody else writes.
func (p *peer) answer(item zmtp.Item) error {
	if item.Command != zmtp.Ping {
		return nil
	}
	pong, ok := zmtp.AppendPong(nil, item.Body)
	if !ok {
		return fmt.Errorf("%w: malformed PING", zmtp.ErrProtocol)
	}
	return p.write(pong)
}

// take publishes one message, or accounts for why not.
func (in *intake) take(ctx context.Context, parts [][]byte) {
	d := Drop{Who: in.publisher.Name, Group: in.publisher.Group}
	var payload json.RawMessage
	if len(parts) != 2 {
		d.Reason, d.Detail = DropInvalid, fmt.Sprintf("%d frames: send [topic, payload]", len(parts))
	} else if topic := string(parts[0]); checkTopic(topic, in.publisher.Name) != nil || !in.publisher.May(topic) {
		d.Reason, d.Detail = DropTopic, "the topic is none that this publisher may use"
	} else {
		d.Topic = topic
		payload, d.Reason, d.Detail = unwrap(topic, parts[1])
	}
	if d.Reason == "" && d.Topic == events.TopicInbound {
		d.Reason, d.Detail = in.ownChannel(payload)
	}
	if d.Reason == "" {
		// What comes from outside is redacted for everybody, the dispatcher too.
		payload = in.bus.redact(d.Topic, payload)
		_, err := in.bus.Publish(ctx, Event{Topic: d.Topic, Source: in.publisher.Name, Group: in.publisher.Group, Payload: payload})
		if err == nil || errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return
		}
		d.Reason, d.Detail = DropInvalid, err.Error()
	}
	in.endpoint.dropped.add(d)
}

// ownChannel holds a publisher of messages to the channel of its own name:
// another channel's senders are not its to speak for.
func (in *intake) ownChannel(payload json.RawMessage) (DropReason, string) {
	m, err := routing.ParseInbound(payload)
	if err != nil {
		return DropInvalid, err.Error()
	}
	if m.Channel != in.publisher.Name {
		return DropTopic, "its channel is not the publisher's own: write \"channel\": " + strconv.Quote(in.publisher.Name)
	}
	return "", ""
}

// unwrap finds the payload in what a publisher sent. An object with version and payload is an
// envelope. One with a number as its version is taken for an envelope too, so that none of another
// version passes for a payload.
func unwrap(topic string, body []byte) (payload json.RawMessage, reason DropReason, detail string) {
	members, err := wire.Object(body, wire.Limits{Message: maxPublished, String: MaxPayload, CaseSensitive: true})
	if err != nil {
		return nil, DropInvalid, "payload: " + err.Error()
	}
	var version, claimed json.RawMessage
	foreign := false
	for _, m := range members {
		switch m.Key {
		case "version":
			version = m.Value
		case "payload":
			payload = m.Value
		case "topic":
			claimed = m.Value
		case "id", "type", "source", "correlation", "timestamp", "group":
		default:
			foreign = true
		}
	}
	isNumber := version != nil && (version[0] == '-' || version[0] >= '0' && version[0] <= '9')
	switch {
	case version == nil || payload == nil && !isNumber:
		return body, "", ""
	case string(version) != strconv.Itoa(message.Version):
		return nil, DropVersion, "an envelope of a version other than 1"
	case payload == nil && !foreign:
		return nil, DropInvalid, "an envelope without a payload"
	case payload == nil:
		return body, "", ""
	case foreign || payload[0] != '{':
		return nil, DropInvalid, "an envelope with a key that is none of its own, or a payload that is no object"
	case claimed != nil && !isText(claimed, topic):
		return nil, DropInvalid, "an envelope of another topic than the frame before it"
	}
	return payload, "", ""
}

func isText(value json.RawMessage, want string) bool {
	have, ok := wire.Text(value)
	return ok && have == want
}

// Follow reads events from a PUB endpoint at the other end of nc, as a SUB: each whose topic a
// prefix names. It ends where the endpoint ends, which is no error, where each returns an error, or
// where ctx ends. It closes nc.
func Follow(ctx context.Context, nc net.Conn, prefixes []string, each func(plugin.Envelope) error) error {
	defer func() { _ = nc.Close() }() // closed already where ctx ended
	p := &peer{nc: nc, r: zmtp.NewReader(nc, events.MaxTopic+message.MaxEnvelope), limits: Limits{}.withDefaults()}
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	err := follow(p, prefixes, each)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func follow(p *peer, prefixes []string, each func(plugin.Envelope) error) error {
	if err := p.handshake(typeSUB, typePUB, typeXPUB); err != nil {
		return ended(err)
	}
	for _, prefix := range prefixes {
		if err := p.write(zmtp.AppendSubscription(nil, p.r.Peer(), prefix, true)); err != nil {
			return ended(err)
		}
	}
	for {
		item, err := p.next()
		if err != nil {
			return ended(err)
		}
		if item.Command != "" {
			if err := p.answer(item); err != nil {
				return err
			}
			continue
		}
		e, ok := decode(item.Parts)
		if !ok {
			return errors.New("events: not what a nacre publishes")
		}
		if !wanted(e.Topic, prefixes) {
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func wanted(topic string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if events.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

func decode(parts [][]byte) (plugin.Envelope, bool) {
	if len(parts) != 2 {
		return plugin.Envelope{}, false
	}
	e, err := message.ParseEnvelope(parts[1])
	if err != nil || e.Topic != string(parts[0]) || e.Type != message.TypeEvent {
		return plugin.Envelope{}, false
	}
	return plugin.Envelope{
		ID: e.ID, Version: e.Version, Type: e.Type, Topic: e.Topic, Source: e.Source,
		Timestamp: e.Timestamp, Group: e.Group, Payload: e.Payload,
	}, true
}

// ended leaves out an endpoint that came to its end.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

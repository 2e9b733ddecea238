package bus_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"github.com/nacre-dev/nacre/plugin"
)

// BenchmarkPublish is one event to one subscriber, against a bare channel that
// hands over the envelope.
func BenchmarkPublish(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		events := make(chan plugin.Envelope, 1)
		payload := []byte(`{"task_id":"t"}`)
		for b.Loop() {
			events <- plugin.Envelope{Topic: "task.created", Payload: payload}
			<-events
		}
	})
	for name, subscribers := range map[string]int{"ours": 1, "ours-100-subscribers": 100} {
		b.Run(name, func(b *testing.B) {
			w := open(b)
			subs := []*bus.Subscription{w.all(b, 1, "task")}
			for len(subs) < subscribers {
				subs = append(subs, w.all(b, 1, "ci"))
			}
			for b.Loop() {
				w.publish(b, "task.created", "core", `{"task_id":"t"}`)
				<-subs[0].Events()
			}
		})
	}
}

// BenchmarkOutside is one event from the bus to a subscriber over a unix
// socket, against its bytes over a bare one.
func BenchmarkOutside(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		ln, path := listen(b)
		var served sync.WaitGroup
		message := make([]byte, 256)
		next := make(chan struct{})
		served.Go(func() {
			nc, err := ln.Accept()
			if err != nil {
				b.Error(err)
				return
			}
			for range next {
				_, _ = nc.Write(message) // the reader would miss it
			}
			_ = nc.Close() // done
		})
		client, err := net.Dial("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			next <- struct{}{}
			if _, err := io.ReadFull(client, message); err != nil {
				b.Fatal(err)
			}
		}
		close(next)
		served.Wait()
		_ = client.Close() // done
		_ = ln.Close()     // done
	})
	b.Run("ours", func(b *testing.B) {
		w := open(b)
		path, _ := w.servePub(b, bus.Limits{})
		c := subscriber(b, path, 1, "task")
		for b.Loop() {
			w.publish(b, "task.created", "core", `{"task_id":"t"}`)
			c.next()
		}
	})
}

// BenchmarkInside is one event from a publisher over a unix socket to the bus.
func BenchmarkInside(b *testing.B) {
	w := open(b)
	s := w.all(b, 1, "")
	c := join(b, w.servePublisher(b, ci(), bus.Limits{}), "PUB", 1)
	message := zmtp.AppendMessage(nil, []byte("ci.done"), []byte(`{"n":1}`))
	for b.Loop() {
		c.send(message)
		<-s.Events()
	}
}

// BenchmarkPublishToMany is one event to a hundred subscribers who all get it,
// against a hundred bare channels.
func BenchmarkPublishToMany(b *testing.B) {
	const many = 100
	b.Run("floor", func(b *testing.B) {
		var subs []chan plugin.Envelope
		for range many {
			subs = append(subs, make(chan plugin.Envelope, 1))
		}
		for b.Loop() {
			e := plugin.Envelope{Topic: "task.created", Payload: []byte(`{"task_id":"t"}`)}
			for _, s := range subs {
				s <- e
			}
			for _, s := range subs {
				<-s
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		w := open(b)
		var subs []*bus.Subscription
		for range many {
			subs = append(subs, w.all(b, 1, "task"))
		}
		for b.Loop() {
			w.publish(b, "task.created", "core", `{"task_id":"t"}`)
			for _, s := range subs {
				<-s.Events()
			}
		}
	})
}

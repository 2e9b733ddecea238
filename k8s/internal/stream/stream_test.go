package stream_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/yamux"

	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

func keyOf(t *testing.T, secret byte, uid string) stream.Key {
	t.Helper()
	key, err := stream.KeyOf(bytes.Repeat([]byte{secret}, stream.MinSecret), uid)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ends dials with one key and accepts with another.
func ends(t *testing.T, pod, host stream.Key) (atPod, atHost *yamux.Session, podErr, hostErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		conn, err := l.Accept()
		if err != nil {
			hostErr = err
			return
		}
		atHost, hostErr = stream.Accept(t.Context(), conn, host)
	}()
	atPod, podErr = stream.Dial(t.Context(), l.Addr().String(), pod)
	<-accepted
	return atPod, atHost, podErr, hostErr
}

// one stream, and each end knows the other before a byte is believed.
func TestThePodOfTheKeyIsServed(t *testing.T) {
	t.Parallel()
	atPod, atHost, podErr, hostErr := ends(t, keyOf(t, 1, "uid"), keyOf(t, 1, "uid"))
	if podErr != nil || hostErr != nil {
		t.Fatal(podErr, hostErr)
	}
	defer func() { _, _ = atPod.Close(), atHost.Close() }()
	go func() {
		s, err := stream.Open(atPod, stream.Socket, "door.sock")
		if err == nil {
			_, _ = s.Write([]byte("hello"))
			_ = s.Close()
		}
	}()
	s, err := atHost.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	kind, name, err := stream.Opened(s)
	text, readErr := io.ReadAll(s)
	if err != nil || readErr != nil || kind != stream.Socket || name != "door.sock" || string(text) != "hello" {
		t.Errorf("have %q %q %q, %v, %v", kind, name, text, err, readErr)
	}
}

// identity is the pod's own. A neighbour of the same pool, or a host of another one,
// gets nothing.
func TestWhoeverElseDialsIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pod, host stream.Key }{
		"another pod of the same pool":      {keyOf(t, 1, "neighbour"), keyOf(t, 1, "uid")},
		"the same pod, with another secret": {keyOf(t, 2, "uid"), keyOf(t, 1, "uid")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atPod, atHost, podErr, hostErr := ends(t, c.pod, c.host)
			if atHost != nil || hostErr == nil || !strings.Contains(hostErr.Error()+podErr.Error(), "refused") {
				t.Errorf("LET THROUGH: %v, %v, %v", atPod, podErr, hostErr)
			}
		})
	}
}

// a host takes nobody who shows no certificate.
func TestAnUnknownClientIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err == nil {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if session, err := stream.Accept(t.Context(), conn, keyOf(t, 1, "uid")); err == nil {
		t.Errorf("LET THROUGH: %v", session)
	}
}

// A secret or a UID that is missing makes no key.
func TestNoKeyIsMadeOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := stream.KeyOf([]byte("short"), "uid"); err == nil {
		t.Error("a short secret")
	}
	if _, err := stream.KeyOf(bytes.Repeat([]byte{1}, stream.MinSecret), ""); err == nil {
		t.Error("no UID")
	}
}

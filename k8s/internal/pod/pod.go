// Package pod promises what PID 1 of a pod does before there is an agent, and after it. It
// takes its key, waits until a claim says whom to dial, and proves itself. It is given its work and
// its files, and gives back what the agent left. The agent itself is started, and held, by what
// starts it in every other sandbox: [inside.Container].
package pod

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

// The modes of sandbox-init in a pod: its first argument.
const (
	// ModeKey makes the pod's key of the pool's secret. It is the init container's, the
	// only one that the secret is shown to.
	ModeKey = "key"
	// ModeRun is PID 1.
	ModeRun = "run"
)

// Where the template shows things, and what it calls them.
const (
	// SecretFile is the pool's, shown to the init container alone.
	SecretFile = "/run/nacre-secret/key" //nolint:gosec // a path
	// KeyFile is the pod's own, which PID 1 takes before there is an agent.
	KeyFile = "/run/nacre-key/key"
	// Annotations are the pod's, as the downward API shows them.
	Annotations = "/run/nacre-pod/annotations"
	// DialAnnotation says whom to dial: an address and a port. It is no secret: who answers
	// there has to prove that it is this pod's host.
	DialAnnotation = "nacre.dev/dial"
	// UIDVariable has the pod's UID.
	UIDVariable = "NACRE_POD_UID"
)

const (
	// look is how often the annotations are looked at: a pool's pods wait for hours.
	look = 200 * time.Millisecond
	// redial is how long a host that does not answer is dialled again.
	redial = 30 * time.Second
	// maxAnnotations is how much of them is read, in bytes.
	maxAnnotations = 1 << 20
	// probeTimeout is how long the API server may take to answer a pod that must not reach it.
	probeTimeout = 2 * time.Second
)

// MakeKey is ModeKey.
func MakeKey() error {
	secret, err := os.ReadFile(SecretFile)
	if err != nil {
		return fmt.Errorf("the pool's secret: %w", err)
	}
	key, err := stream.KeyOf(secret, os.Getenv(UIDVariable))
	if err != nil {
		return err
	}
	return os.WriteFile(KeyFile, []byte(hex.EncodeToString(key)), 0o600) //nolint:gosec // a constant path
}

// takeKey reads the key and removes it: the agent is the same user.
func takeKey() (stream.Key, error) {
	text, err := os.ReadFile(KeyFile)
	if err != nil {
		return nil, fmt.Errorf("the pod's key, which its init container makes: %w", err)
	}
	key, err := hex.DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("the pod's key: %w", err)
	}
	return key, os.Remove(KeyFile)
}

// Run is ModeRun. It returns when the pod has done its work, or with the reason why not.
func Run(ctx context.Context) error {
	key, err := takeKey()
	if err != nil {
		return err
	}
	address, err := adopted(ctx)
	if err != nil {
		return err
	}
	return serve(ctx, address, key)
}

// adopted waits until a claim says whom to dial.
func adopted(ctx context.Context) (string, error) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		address, err := dialled(Annotations)
		if err != nil || address != "" {
			return address, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-ticker.C:
		}
	}
}

// dialled is the annotation's value, empty where there is none yet.
func dialled(file string) (string, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // a pod without annotations
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(io.LimitReader(f, maxAnnotations))
	lines.Buffer(nil, maxAnnotations)
	for lines.Scan() {
		quoted, ok := strings.CutPrefix(lines.Text(), DialAnnotation+"=")
		if !ok {
			continue
		}
		address, err := strconv.Unquote(quoted)
		if err != nil {
			return "", fmt.Errorf("annotation %s: %w", DialAnnotation, err)
		}
		return address, nil
	}
	return "", lines.Err()
}

// sealed fails where the pod reaches the API server: then no policy of the cluster's
// holds its network, and an agent would have all of it.
func sealed(ctx context.Context) error {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil // which is what has to be
	}
	_ = conn.Close() // nothing was said
	return fmt.Errorf("the pod reaches the cluster's API server at %s: its network policy is not enforced here; "+
		"use a network plugin that enforces NetworkPolicy, and apply manifests/policy.yaml", net.JoinHostPort(host, port))
}

// volume is a folder that the agent may use: made where the template's volume lets it be.
func volume(name string) error {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return fmt.Errorf("%s: %w (the template wants an emptyDir there)", filepath.Dir(name), err)
	}
	return nil
}

package kubetest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// patience is how long anything of the control plane is waited for: the machine is busy.
const patience = 3 * time.Minute

// The users of the cluster, by their tokens.
const (
	adminToken    = "admin-token"
	nacreToken    = "nacre-token"    // the service account of manifests/access.yaml
	strangerToken = "stranger-token" // the same of another namespace
)

// cluster is a real control plane: etcd, kube-apiserver and agent-sandbox's controller.
type cluster struct {
	t      *testing.T
	dir    string
	host   string
	admin  dynamic.Interface
	binary func(name string) string
}

// newCluster starts one with the shipped manifests in it, or skips the test by name.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	built := os.Getenv("NACRE_KUBE")
	if built == "" {
		t.Skip("NACRE_KUBE names no folder of kube-apiserver, etcd and agent-sandbox-controller: make kube builds them")
	}
	c := &cluster{t: t, dir: t.TempDir(), binary: func(name string) string { return filepath.Join(built, name) }}
	c.startAPI()
	c.applyDir(filepath.Join(built, "crds"))
	for _, name := range []string{"default", "nacre", "other", "agent-sandbox-system"} {
		c.namespace(name)
	}
	for name, kind := range resources() {
		c.eventually(name+" are served", func() error {
			_, err := c.of(kind, "nacre").List(t.Context(), metav1.ListOptions{})
			return err
		})
	}
	c.startController()
	for _, name := range []string{"access.yaml", "runtime.yaml", "policy.yaml"} {
		c.applyFile(filepath.Join("../manifests", name))
	}
	c.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: nacre-key, namespace: nacre}\nstringData: {key: " + rand.Text() + rand.Text() + "}\n")
	c.applyFile("../manifests/pool.yaml")
	return c
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// run keeps a program of the control plane running, as a cluster does, until the test ends.
func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			command := exec.CommandContext(ctx, c.binary(name), args...)
			command.Stdout, command.Stderr, command.Dir = log, log, c.dir
			command.Env = append(os.Environ(), "TMPDIR="+c.dir)
			command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			_, _ = fmt.Fprintf(log, "%s ended: %v\n", name, command.Run())
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	c.t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && c.t.Failed() {
			c.t.Logf("%s said last: %s", name, text[max(0, len(text)-3000):])
		}
	})
}

func (c *cluster) startAPI() {
	c.t.Helper()
	client, peer, secure := freePort(c.t), freePort(c.t), freePort(c.t)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", client)
	c.run("etcd", "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", peer))
	key := filepath.Join(c.dir, "accounts.key")
	writeKey(c.t, key)
	tokens := filepath.Join(c.dir, "tokens.csv")
	write(c.t, tokens, adminToken+",admin,1,system:masters\n"+nacreToken+",system:serviceaccount:nacre:nacre,2\n"+strangerToken+",system:serviceaccount:other:nacre,3\n")
	c.run("kube-apiserver", "--etcd-servers="+etcd, fmt.Sprintf("--secure-port=%d", secure), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(c.dir, "certs"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--token-auth-file="+tokens, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24")
	c.host = fmt.Sprintf("https://127.0.0.1:%d", secure)
	var err error
	c.admin, err = dynamic.NewForConfig(&rest.Config{Host: c.host, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 200, Burst: 400})
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the API server answers", func() error {
		_, err := c.admin.Resource(core("namespaces")).Get(c.t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

func writeKey(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) startController() {
	c.t.Helper()
	c.run("agent-sandbox-controller", "--kubeconfig="+c.kubeconfig("controller", adminToken), "--extensions=true", "--leader-elect=false", "--enable-webhook=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0")
}

// kubeconfig is a file for whoever has a token.
func (c *cluster) kubeconfig(name, token string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, name+".kubeconfig")
	write(c.t, file, fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: u, user: {token: %s}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", c.host, token))
	return file
}

// away is a kubeconfig for a cluster that nobody answers for.
func (c *cluster) away() string {
	gone := *c
	gone.host = fmt.Sprintf("https://127.0.0.1:%d", freePort(c.t))
	return gone.kubeconfig("away", nacreToken)
}

func (c *cluster) namespace(name string) {
	c.t.Helper()
	c.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n")
	c.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + name + "}\n") // which the controller manager makes
}

func (c *cluster) applyDir(dir string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	for _, file := range files {
		c.applyFile(file)
	}
}

func (c *cluster) applyFile(file string) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		c.apply(string(document))
	}
}

// apply makes an object, or changes the one that is there.
func (c *cluster) apply(document string) {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		c.t.Fatalf("%v: %s", err, document)
	}
	if len(object.Object) == 0 {
		return
	}
	gvk := object.GroupVersionKind()
	if gvk.Kind == "CustomResourceDefinition" { // of two versions; its webhook would want a service, and only one is spoken
		object.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "None"}
	}
	text, err := object.MarshalJSON()
	if err != nil {
		c.t.Fatal(err)
	}
	plural := strings.ToLower(gvk.Kind) + "s"
	switch gvk.Kind {
	case "RuntimeClass":
		plural = "runtimeclasses"
	case "NetworkPolicy":
		plural = "networkpolicies"
	}
	c.eventually(gvk.Kind+" "+object.GetName(), func() error {
		resource := c.of(gvk.GroupVersion().WithResource(plural), object.GetNamespace())
		_, err := resource.Patch(c.t.Context(), object.GetName(), "application/apply-patch+yaml", text, metav1.PatchOptions{FieldManager: "test"})
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			c.t.Fatalf("%s: %v", document, err)
		}
		return err
	})
}

func (c *cluster) of(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.admin.Resource(resource)
	}
	return c.admin.Resource(resource).Namespace(namespace)
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

func claims() schema.GroupVersionResource { return resources()["sandboxclaims"] }

func resources() map[string]schema.GroupVersionResource {
	of := func(group, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: resource}
	}
	return map[string]schema.GroupVersionResource{
		"pods": core("pods"), "sandboxes": of("agents.x-k8s.io", "sandboxes"),
		"sandboxclaims": of("extensions.agents.x-k8s.io", "sandboxclaims"), "sandboxwarmpools": of("extensions.agents.x-k8s.io", "sandboxwarmpools"),
	}
}

// eventually waits for a condition, for as long as a busy machine may need.
func (c *cluster) eventually(what string, holds func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

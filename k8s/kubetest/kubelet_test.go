package kubetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet is ours: it runs what a pod's containers say as sealed processes, shows them
// their volumes, and says so to the API server. It cannot show what a cluster's own parts
// hold: runtime classes, network plugins, images and cgroups.
type kubelet struct {
	*cluster
	program string // what stands in every image at /nacre/sandbox-init
	holes   []int  // the ports that the network policy lets pods dial
	mu      sync.Mutex
	pods    map[string]*runningPod // by UID
	// leaky has pods that are started reach an API server, as without a network plugin.
	leaky  atomic.Bool
	stop   chan struct{}
	ending sync.Once
	ended  sync.WaitGroup
}

type runningPod struct {
	name    string
	dir     string
	command *exec.Cmd
	log     string
	leaky   bool
	claimed bool
}

func startKubelet(c *cluster, program string, holes []int) *kubelet {
	c.t.Helper()
	k := &kubelet{cluster: c, program: program, holes: holes, pods: map[string]*runningPod{}, stop: make(chan struct{})}
	k.ended.Go(k.loop)
	c.t.Cleanup(func() {
		k.end()
		for uid := range k.pods {
			k.kill(uid)
		}
	})
	return k
}

// end leaves what runs alone, and looks at nothing any more.
func (k *kubelet) end() {
	k.ending.Do(func() { close(k.stop) })
	k.ended.Wait()
}

func (k *kubelet) loop() {
	for {
		if err := errors.Join(k.sync(), k.collect("sandboxes", "sandboxclaims", "sandboxwarmpools"), k.collect("pods", "sandboxes")); err != nil {
			k.t.Logf("kubelet: %v", err)
		}
		select {
		case <-k.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sync makes what runs what the API server says.
func (k *kubelet) sync() error {
	list, err := k.of(core("pods"), "nacre").List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil // it is going, or not yet there
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := map[string]bool{}
	for _, object := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pod); err != nil {
			return err
		}
		uid := string(pod.UID)
		wanted[uid] = true
		if k.pods[uid] == nil {
			if err := k.start(pod); err != nil {
				return fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
		if err := k.showAnnotations(pod); err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodPending {
			if err := k.isRunning(pod.Name); err != nil {
				return err
			}
		}
	}
	for uid := range k.pods {
		if !wanted[uid] {
			k.kill(uid)
		}
	}
	return nil
}

// collect deletes what is left of owners that are gone, as the garbage collector of a
// controller manager does.
func (k *kubelet) collect(kind string, owners ...string) error {
	there := map[types.UID]bool{}
	for _, owner := range owners {
		list, err := k.of(resources()[owner], "nacre").List(k.t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil //nolint:nilerr // it is going, or not yet there
		}
		for _, o := range list.Items {
			there[o.GetUID()] = true
		}
	}
	list, err := k.of(resources()[kind], "nacre").List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	for _, o := range list.Items {
		// what has appeared since the owners were listed is as young
		if owner := metav1.GetControllerOf(&o); owner == nil || there[owner.UID] || time.Since(o.GetCreationTimestamp().Time) < 5*time.Second {
			continue
		}
		if err := k.of(resources()[kind], "nacre").Delete(k.t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (k *kubelet) isRunning(name string) error {
	status, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.1.0.7", PodIPs: []corev1.PodIP{{IP: "10.1.0.7"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}})
	if err != nil {
		return err
	}
	_, err = k.of(core("pods"), "nacre").Patch(k.t.Context(), name, "application/merge-patch+json", status, metav1.PatchOptions{}, "status")
	return err
}

// kill ends a pod's processes: they are one namespace's.
func (k *kubelet) kill(uid string) {
	p := k.pods[uid]
	delete(k.pods, uid)
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	if text, err := os.ReadFile(p.log); err == nil && len(text) > 0 && k.t.Failed() {
		k.t.Logf("the pod %s said: %s", p.name, text)
	}
	_ = os.RemoveAll(p.dir)
}

// evict ends the pods that were claimed, as a node that is short of memory does.
func (k *kubelet) evict() {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if !p.claimed {
			continue
		}
		status := []byte(`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`)
		if _, err := k.of(core("pods"), "nacre").Patch(k.t.Context(), p.name, "application/merge-patch+json", status, metav1.PatchOptions{}, "status"); err != nil {
			k.t.Error(err)
		}
		_ = p.command.Process.Kill()
	}
}

func (k *kubelet) start(pod corev1.Pod) error {
	dir, err := os.MkdirTemp(k.dir, "pod-")
	if err != nil {
		return err
	}
	p := &runningPod{name: pod.Name, dir: dir, log: filepath.Join(dir, "log"), leaky: k.leaky.Load()}
	for _, v := range pod.Spec.Volumes {
		if err := k.volume(filepath.Join(dir, "volumes", v.Name), v); err != nil {
			return err
		}
	}
	for _, c := range pod.Spec.InitContainers {
		first, err := k.container(p, pod, c)
		if err != nil {
			return err
		}
		if err := first.Wait(); err != nil {
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s: %w: %s", c.Name, err, text)
		}
	}
	k.pods[string(pod.UID)] = p
	p.command, err = k.container(p, pod, pod.Spec.Containers[0])
	return err
}

func (k *kubelet) volume(dir string, v corev1.Volume) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	switch {
	case v.EmptyDir != nil, v.DownwardAPI != nil:
		return os.Chmod(dir, 0o777)
	case v.Secret != nil:
		object, err := k.of(core("secrets"), "nacre").Get(k.t.Context(), v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var secret corev1.Secret
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &secret); err != nil {
			return err
		}
		for name, value := range secret.Data {
			if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("volume %s is of no kind that is known here", v.Name)
}

// showAnnotations is the downward API's volume: one file, replaced as a whole.
func (k *kubelet) showAnnotations(pod corev1.Pod) error {
	p := k.pods[string(pod.UID)]
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI == nil {
			continue
		}
		var text strings.Builder
		for name, value := range pod.Annotations {
			fmt.Fprintf(&text, "%s=%s\n", name, strconv.Quote(value))
			p.claimed = p.claimed || name == "nacre.dev/dial"
		}
		file := filepath.Join(p.dir, "volumes", v.Name, v.DownwardAPI.Items[0].Path)
		if err := os.WriteFile(file+".new", []byte(text.String()), 0o644); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
	}
	return nil
}

// container starts one: a process that is PID 1 of namespaces of its own.
func (k *kubelet) container(p *runningPod, pod corev1.Pod, c corev1.Container) (*exec.Cmd, error) {
	if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		return nil, errors.New("a container that is not restricted")
	}
	for _, m := range c.VolumeMounts {
		if strings.Contains(m.MountPath, "serviceaccount") {
			return nil, errors.New("the API server gave the pod a token")
		}
	}
	box := sealedBox{Root: filepath.Join(p.dir, "root-"+c.Name), Program: k.program, Argv: c.Command, Holes: k.holes, UID: *pod.Spec.SecurityContext.RunAsUser}
	for _, m := range c.VolumeMounts {
		box.Mounts = append(box.Mounts, boxMount{filepath.Join(p.dir, "volumes", m.Name), m.MountPath, m.ReadOnly})
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.uid" {
			e.Value = string(pod.UID)
		}
		box.Env = append(box.Env, e.Name+"="+e.Value)
	}
	at := strings.TrimPrefix(k.host, "https://")
	host, port, _ := strings.Cut(at, ":")
	if k.leaky.Load() {
		port = strconv.Itoa(k.holes[0])
	}
	box.Env = append(box.Env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	if err := os.MkdirAll(box.Root, 0o755); err != nil {
		return nil, err
	}
	return k.seal(p, box)
}

// seal starts the box, and leads what it dials through its holes to this machine.
func (k *kubelet) seal(p *runningPod, box sealedBox) (*exec.Cmd, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "holes"), os.NewFile(uintptr(pair[1]), "holes")
	defer func() { _ = theirs.Close() }()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	text, err := json.Marshal(box)
	if err != nil {
		return nil, err
	}
	command := exec.Command("/proc/self/exe", sealMode, string(text))
	command.Stdout, command.Stderr, command.ExtraFiles = log, log, []*os.File{theirs}
	command.Env = box.Env
	command.SysProcAttr = box.namespaces()
	if err := command.Start(); err != nil {
		return nil, err
	}
	go k.lead(ours)
	return command, nil
}

// lead takes the listening sockets out of the box, and connects what arrives there.
func (k *kubelet) lead(holes *os.File) {
	defer func() { _ = holes.Close() }()
	for _, port := range k.holes {
		room := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(int(holes.Fd()), make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
		if err != nil || n == 0 {
			return // it ended before
		}
		messages, err := unix.ParseSocketControlMessage(room[:n])
		if err != nil || len(messages) != 1 {
			return
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return
		}
		f := os.NewFile(uintptr(fds[0]), "hole")
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return
		}
		k.t.Cleanup(func() { _ = l.Close() })
		go through(l, port)
	}
}

func through(l net.Listener, port int) {
	for {
		inside, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = inside.Close() }()
			host, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return
			}
			defer func() { _ = host.Close() }()
			go func() { _, _ = io.Copy(host, inside); _ = host.(*net.TCPConn).CloseWrite() }()
			_, _ = io.Copy(inside, host)
		}()
	}
}

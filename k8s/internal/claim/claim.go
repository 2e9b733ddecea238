// Package claim promises one pod of a warm pool for one sandbox: agent-sandbox's
// SandboxClaim (v1beta1) is made, kept for as long as somebody keeps it, and deleted. A
// claim whose nacre is gone ends by itself: its time runs out.
package claim

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nacre-dev/nacre/k8s/internal/pod"
)

const (
	// lease is how long a claim lives that nobody renews, and renew is how often it is.
	lease = 3 * time.Minute
	renew = time.Minute
	// readyTimeout is how long a pool may take to give a pod.
	readyTimeout = 2 * time.Minute
	// look is how often it is looked at meanwhile.
	look = 200 * time.Millisecond
)

// OwnerAnnotation says to people whose claim it is.
const OwnerAnnotation = "nacre.dev/owner"

// SessionLabel names the session.
const SessionLabel = "nacre.dev/session"

// The kinds that are read and written. v1beta1 is the one version that is spoken.
func claims() schema.GroupVersionResource    { return extensions("sandboxclaims") }
func pools() schema.GroupVersionResource     { return extensions("sandboxwarmpools") }
func templates() schema.GroupVersionResource { return extensions("sandboxtemplates") }

func extensions(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: resource}
}

func sandboxes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// Claim is one that was made.
type Claim struct {
	cluster *Cluster
	name    string
	skew    time.Duration // the cluster's clock, against this machine's
	pod     string
}

// Pod is what a claim was given.
type Pod struct{ Name, UID string }

// Claim asks for a pod that dials an address. session and owner are for people.
func (c *Cluster) Claim(ctx context.Context, session, owner, dial string) (*Claim, error) {
	cl := &Claim{cluster: c, name: "nacre-" + session + "-" + strings.ToLower(rand.Text()[:8])}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": claims().GroupVersion().String(), "kind": "SandboxClaim",
		"metadata": map[string]any{
			"name": cl.name, "labels": map[string]any{SessionLabel: session}, "annotations": map[string]any{OwnerAnnotation: owner},
		},
		"spec": map[string]any{
			"warmPoolRef":           map[string]any{"name": c.settings.Pool},
			"additionalPodMetadata": map[string]any{"annotations": map[string]any{pod.DialAnnotation: dial}},
		},
	}}
	// A first one that is not made tells the cluster's time, which is what ends the claim.
	tried, err := c.of(claims()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, c.explained("claim a pod", err)
	}
	cl.skew = time.Until(tried.GetCreationTimestamp().Time)
	lifecycle := map[string]any{"shutdownTime": cl.until(), "shutdownPolicy": "Delete"}
	if err := unstructured.SetNestedMap(object.Object, lifecycle, "spec", "lifecycle"); err != nil {
		return nil, err
	}
	if _, err := c.of(claims()).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, c.explained("claim a pod", err)
	}
	return cl, nil
}

// until is when the claim ends unless it is renewed, by the cluster's clock.
func (cl *Claim) until() string {
	return time.Now().Add(cl.skew + lease).UTC().Format(time.RFC3339)
}

// Keep renews the claim until ctx ends. A claim that could not be renewed ends its pod,
// which ends the stream.
func (cl *Claim) Keep(ctx context.Context) {
	ticker := time.NewTicker(renew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"lifecycle": map[string]any{"shutdownTime": cl.until()}}})
		if err != nil {
			continue
		}
		_, _ = cl.cluster.of(claims()).Patch(ctx, cl.name, types.MergePatchType, patch, metav1.PatchOptions{}) // the next one may work
	}
}

// nothing is what is said where the cluster has said nothing of a claim.
const nothing = "nothing yet"

// Ready waits until the claim has its pod.
func (cl *Claim) Ready(ctx context.Context) (Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	said := nothing
	for {
		given, why, err := cl.look(ctx)
		if err == nil && given != nil {
			cl.pod = given.Name
			return *given, nil
		}
		switch {
		case errors.As(err, new(*url.Error)) && (ctx.Err() == nil || said == nothing):
			said = err.Error() // the next answer may come
		case ctx.Err() != nil:
		case err != nil:
			return Pod{}, err
		default:
			said = why
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return Pod{}, fmt.Errorf("the claim %s did not become ready within %s (last heard: %s): look at kubectl -n %s describe sandboxclaim %s, and whether the pool has pods",
					cl.name, readyTimeout, said, cl.cluster.settings.Namespace, cl.name)
			}
			return Pod{}, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// look returns the pod, or what is said of why there is none yet.
func (cl *Claim) look(ctx context.Context) (*Pod, string, error) {
	c := cl.cluster
	object, err := c.of(claims()).Get(ctx, cl.name, metav1.GetOptions{})
	if err != nil {
		return nil, "", c.explained("look at the claim "+cl.name, err)
	}
	ready, why := isReady(object)
	name, _, err := unstructured.NestedString(object.Object, "status", "sandbox", "name")
	if err != nil || !ready || name == "" {
		return nil, why, err
	}
	box, err := c.of(sandboxes()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", c.explained("look at the sandbox "+name, err)
	}
	if named := box.GetAnnotations()["agents.x-k8s.io/pod-name"]; named != "" {
		name = named
	}
	found, err := c.of(core("pods")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", c.explained("look at the pod "+name, err)
	}
	if !metav1.IsControlledBy(found, box) {
		return nil, "", fmt.Errorf("the pod %s is not the sandbox's %s: refused", name, box.GetName())
	}
	return &Pod{name, string(found.GetUID())}, "", nil
}

// isReady reads the condition, and what is said with it.
func isReady(object *unstructured.Unstructured) (ready bool, why string) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return false, err.Error()
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		return condition["status"] == "True", fmt.Sprintf("%v: %v", condition["reason"], condition["message"])
	}
	return false, nothing
}

// Why says how the pod ended, as far as the cluster knows.
func (cl *Claim) Why(ctx context.Context) string {
	if cl.pod == "" {
		return "it had no pod"
	}
	found, err := cl.cluster.of(core("pods")).Get(ctx, cl.pod, metav1.GetOptions{})
	if err != nil {
		return "the pod " + cl.pod + " is gone, or cannot be looked at: it was evicted or deleted, or its node failed"
	}
	reason, _, _ := unstructured.NestedString(found.Object, "status", "reason")
	message, _, _ := unstructured.NestedString(found.Object, "status", "message")
	phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
	switch {
	case reason != "":
		return fmt.Sprintf("the pod %s ended: %s: %s", cl.pod, reason, message)
	case found.GetDeletionTimestamp() != nil:
		return "the pod " + cl.pod + " is being deleted"
	}
	return fmt.Sprintf("the pod %s is %s, and its stream has ended", cl.pod, phase)
}

// Delete gives the pod back. What runs in it has ended with its stream.
func (cl *Claim) Delete(ctx context.Context) error {
	c := cl.cluster
	err := c.of(claims()).Delete(ctx, cl.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%w; the claim ends by itself within %s", c.explained("delete the claim "+cl.name, err), lease)
	}
	return nil
}

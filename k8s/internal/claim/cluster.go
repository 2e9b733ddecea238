package claim

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

// callTimeout is how long one question to the API server may take.
const callTimeout = 15 * time.Second

// SecretSuffix follows the pool's name in the name of its secret.
const SecretSuffix = "-key"

// Cluster is what pods are claimed from.
type Cluster struct {
	settings inside.PodSettings
	host     string
	client   dynamic.Interface
}

// Open reads the kubeconfig. It connects to nothing yet.
func Open(settings inside.PodSettings) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if settings.Kubeconfig != "" {
		rules.ExplicitPath = settings.Kubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: settings.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	config.Timeout, config.UserAgent = callTimeout, "nacre-k8s"
	config.QPS = -1 // what is asked is bounded here, and the server has limits of its own
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	return &Cluster{settings, config.Host, client}, nil
}

func (c *Cluster) of(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.client.Resource(resource).Namespace(c.settings.Namespace)
}

// explained says in a sentence what the cluster did not let be done, and what helps.
func (c *Cluster) explained(what string, err error) error {
	var unreachable *url.Error
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the cluster does not let this user %s in namespace %s: apply manifests/access.yaml there, or name the namespace that the user's token is for ([sandbox.k8s] namespace): %w",
			what, c.settings.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not know this user (could not %s): renew the kubeconfig's credentials: %w", what, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("could not %s in namespace %s: %w", what, c.settings.Namespace, err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("the API server at %s does not answer (could not %s): %w", c.host, what, err)
	}
	return fmt.Errorf("could not %s: %w", what, err)
}

// Secret is the pool's.
func (c *Cluster) Secret(ctx context.Context) ([]byte, error) {
	name := c.settings.Pool + SecretSuffix
	object, err := c.of(core("secrets")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explained("read the pool's secret "+name, err)
	}
	text, _, err := unstructured.NestedString(object.Object, "data", "key")
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(secret) < stream.MinSecret {
		return nil, fmt.Errorf("the pool's secret %s has no entry \"key\" of %d bytes or more: make it anew (docs/kubernetes.md)", name, stream.MinSecret)
	}
	return secret, nil
}

// Template is what the pool's pods are made of.
type Template struct {
	Name, Runtime, Image string
}

// Look finds the pool's template, and refuses one whose pods would hold less than they must.
func (c *Cluster) Look(ctx context.Context) (Template, error) {
	pool, err := c.of(pools()).Get(ctx, c.settings.Pool, metav1.GetOptions{})
	if err != nil {
		return Template{}, c.explained("find the warm pool "+c.settings.Pool, err)
	}
	name, _, err := unstructured.NestedString(pool.Object, "spec", "sandboxTemplateRef", "name")
	if err != nil {
		return Template{}, err
	}
	template, err := c.of(templates()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Template{}, c.explained("find the template "+name+" of the warm pool", err)
	}
	if managed, _, err := unstructured.NestedString(template.Object, "spec", "networkPolicyManagement"); err != nil || managed != "Unmanaged" {
		return Template{}, fmt.Errorf("the template %s lets agent-sandbox make its network policy, which may open the Internet: write networkPolicyManagement: Unmanaged, and apply manifests/policy.yaml", name)
	}
	if err := c.denied(ctx); err != nil {
		return Template{}, err
	}
	spec, found, err := unstructured.NestedMap(template.Object, "spec", "podTemplate", "spec")
	if err != nil || !found {
		return Template{}, errors.Join(fmt.Errorf("the template %s has no pod", name), err)
	}
	t := Template{Name: name}
	t.Runtime, _, _ = unstructured.NestedString(spec, "runtimeClassName") // what is not there is empty
	if err := c.check(t, spec); err != nil {
		return Template{}, fmt.Errorf("the template %s: %w: see manifests/pool.yaml", name, err)
	}
	if containers, _, _ := unstructured.NestedSlice(spec, "containers"); len(containers) == 1 {
		if only, ok := containers[0].(map[string]any); ok {
			t.Image, _, _ = unstructured.NestedString(only, "image")
		}
	}
	return t, nil
}

// denied fails where no policy of the namespace holds every pod, both ways.
func (c *Cluster) denied(ctx context.Context) error {
	policies, err := c.of(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return c.explained("list the network policies", err)
	}
	for _, p := range policies.Items {
		selector, _, selectorErr := unstructured.NestedMap(p.Object, "spec", "podSelector")
		both, _, typesErr := unstructured.NestedStringSlice(p.Object, "spec", "policyTypes")
		if errors.Join(selectorErr, typesErr) == nil && len(selector) == 0 && slices.Contains(both, "Ingress") && slices.Contains(both, "Egress") {
			return nil
		}
	}
	return fmt.Errorf("no network policy of namespace %s denies its pods everything: apply manifests/policy.yaml", c.settings.Namespace)
}

func (c *Cluster) check(t Template, spec map[string]any) error {
	if token, set, err := unstructured.NestedBool(spec, "automountServiceAccountToken"); err != nil || !set || token {
		return errors.New("its pods get the token of a service account: write automountServiceAccountToken: false")
	}
	for _, shared := range []string{"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} {
		if on, _, err := unstructured.NestedBool(spec, shared); err != nil || on {
			return fmt.Errorf("%s is on: an agent may share nothing with its node or another container", shared)
		}
	}
	if containers, _, err := unstructured.NestedSlice(spec, "containers"); err != nil || len(containers) != 1 {
		return errors.New("its pods have several containers, or none: an agent is alone")
	}
	if c.settings.Runtime != "" && t.Runtime != c.settings.Runtime {
		return fmt.Errorf("its runtime class is %q, and config.toml wants %q ([sandbox] runtime)", t.Runtime, c.settings.Runtime)
	}
	return nil
}

// Host is the API server's address, for people.
func (c *Cluster) Host() string { return c.host }

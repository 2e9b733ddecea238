package posture

import (
	"errors"
	"fmt"
	"path"
)

// Pods is the backend of sandboxes in pods of a Kubernetes cluster.
const Pods = "k8s"

// CheckPods refuses a cluster of which something is missing. engines is what was written
// of a container engine beside it.
func CheckPods(kubeconfig, namespace, pool, listen, engines string) error {
	switch {
	case engines != "":
		return errors.New("[sandbox]: image and socket are a container engine's: the pool's template names the image of pods")
	case namespace == "" || pool == "" || listen == "":
		return errors.New("[sandbox.k8s]: write namespace, pool and listen = \"ADDRESS:FIRST-LAST\", which pods dial")
	case kubeconfig != "" && !path.IsAbs(kubeconfig):
		return fmt.Errorf("[sandbox.k8s]: kubeconfig = %q: write an absolute path", kubeconfig)
	}
	return nil
}

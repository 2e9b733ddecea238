package probe_test

import "testing"

// engines are the container engines that can be reached, named by the environment.
func engines(*testing.T, string, string) []reachable {
	return []reachable{
		{name: "docker", missing: "NACRE_DOCKER does not name an engine's socket"},
		{name: "podman", missing: "NACRE_PODMAN does not name an engine's socket"},
		{name: "runsc", missing: "NACRE_RUNSC does not name an engine's socket"},
	}
}

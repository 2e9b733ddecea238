package assembly

import "runtime/debug"

// Version is what the linker was told. Where it was told nothing it is what go install was asked for, and
// else "unknown".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if built, ok := debug.ReadBuildInfo(); ok && built.Main.Version != "" && built.Main.Version != "(devel)" {
		return built.Main.Version
	}
	return "unknown"
}

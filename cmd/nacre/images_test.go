package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// imagesTime is how long making the images may take before the test is skipped:
// how fast packages come is not ours.
const imagesTime = 210 * time.Second

// imageUse is what people want an image for.
type imageUse struct {
	recipe string
	// named is what the operator writes as the image.
	named func(t *testing.T, e imageEngine, recipe string) string
	// script prints "hello from a package" where the image's tools work.
	script string
}

func imageUses() []imageUse {
	return []imageUse{
		{"base", byID, `git --version && jq --version && rg --version && curl -sSf http://packages.test/hello`},
		{"go", byDevcontainer, `cd /workspace && printf 'module x\n\ngo 1.22.0\n\nrequire packages.test/hello v1.0.0\n' >go.mod
			printf 'package main\n\nimport "packages.test/hello"\n\nfunc main() { println(hello.Text) }\n' >main.go
			export GOPROXY=http://packages.test/go GOSUMDB=off GOFLAGS=-mod=mod
			go build -o x . && ./x`},
		{"python", byOneOverIt, `pip install --index-url http://packages.test/pypi --trusted-host packages.test hello && python -c 'import hello; print(hello.text)'`},
		{"node", byName, `cd /workspace && npm install --no-audit --no-fund --registry=http://packages.test/npm hello && node -e 'console.log(require("hello"))'`},
	}
}

func byID(t *testing.T, e imageEngine, recipe string) string {
	t.Helper()
	return "sha256:" + strings.TrimPrefix(e.inspect(t, "nacre-"+recipe).ID, "sha256:")
}

func byName(_ *testing.T, _ imageEngine, recipe string) string { return "nacre-" + recipe }

// byDevcontainer names an image as a project does that asks for much more.
func byDevcontainer(t *testing.T, _ imageEngine, recipe string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "devcontainer.json")
	text := `{ // what a project wants
		"image": "nacre-` + recipe + `", "remoteUser": "root", "privileged": true, "runArgs": ["--network=host", "--volume=/:/host"],
		"mounts": ["source=/,target=/host,type=bind"], "postCreateCommand": "touch /workspace/theirs-ran", "containerEnv": {"THEIRS": "1"},
	}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// byOneOverIt is an image that the user built over the recipe's.
func byOneOverIt(t *testing.T, e imageEngine, recipe string) string {
	t.Helper()
	text := "FROM nacre-" + recipe + "\nENV THEIRS=1 PIP_NO_INDEX=1\nUSER 0\nENTRYPOINT [\"/bin/false\"]\nRUN mkdir /host\n"
	if err := e.build(t.Context(), "nacre-ours", text, nil); err != nil {
		t.Fatal(err)
	}
	return "nacre-ours"
}

// M-15: the recipes are built, each over the one before it, with a base and a mirror of the
// operator's. They do their work sealed, by whatever name an operator gives them.
func TestImagesOfTheRecipesAreBuiltAndWorkSealed(t *testing.T) {
	t.Parallel()
	testpeer.Engine(t, "NACRE_DOCKER")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), imagesTime) // subtests outlive this function
	t.Cleanup(cancel)
	mirror := debianMirror(t)
	bare := bareDebian(ctx, t, mirror)
	site := newPackageSite(t)
	for _, name := range []string{"docker", "podman"} {
		t.Run(name, func(t *testing.T) {
			e := imageEngine{name, testpeer.Engine(t, "NACRE_"+strings.ToUpper(name)), ""}
			skipLate(ctx, t, e.importRoot(ctx, bare))
			skipLate(ctx, t, e.buildRecipe(ctx, "base", map[string]string{"BASE": bareImage, "MIRROR": mirror}))
			for _, use := range imageUses() {
				if name == "docker" || use.recipe == "base" {
					t.Run(use.recipe, func(t *testing.T) { use.isBuiltAndWorks(ctx, t, e, site) })
				}
			}
		})
	}
}

func (u imageUse) isBuiltAndWorks(ctx context.Context, t *testing.T, e imageEngine, site packageSite) {
	t.Helper()
	t.Parallel()
	if u.recipe != "base" {
		skipLate(ctx, t, e.buildRecipe(ctx, u.recipe, nil))
	}
	e.checkPlain(t, u.recipe)
	u.worksSealed(t, e, site)
	if e.runtime = "runsc"; u.recipe == "python" && e.name == "docker" {
		t.Run("with gVisor", func(t *testing.T) {
			testpeer.Engine(t, "NACRE_RUNSC")
			u.worksSealed(t, e, site)
		})
	}
}

// skipLate ends a test that could not make its image: as skipped where time ran out.
func skipLate(ctx context.Context, t *testing.T, err error) {
	t.Helper()
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.Skipf("the image was not made within %s: %v", imagesTime, err)
	case err != nil:
		t.Fatal(err)
	}
}

// worksSealed: what the image has works through the proxy, and nothing else is
// reached or changed.
func (u imageUse) worksSealed(t *testing.T, e imageEngine, site packageSite) {
	t.Helper()
	named := u.named(t, e, u.recipe)
	h := newEngineHouse(t, fmt.Sprintf("[sandbox]\nbackend = %q\nsocket = %q\nruntime = %q\nimage = %q\n%s", e.name, e.socket, e.runtime, named, site.egress))
	// in one stream: what comes in two has no order between them
	out := h.nacre(t, 0, "exec", "--project", h.project, "--time", "2m", "--", "sh", "-ec", "exec 2>&1; ("+u.script+`)
		id -un; curl -sS http://elsewhere.test/; touch /usr/made || echo cannot; ipc list_tools {}; ls -A /host /workspace || true; echo "[$THEIRS]"`)
	has(t, out, "hello from a package", "\nagent\n", "egress to elsewhere.test:80 is denied (not_listed)", "\ncannot\n", `"tools"`, "\n[]\n")
	hasNo(t, out, "\nroot\n", "\nproc\n", "theirs-ran")
	pinned := !strings.Contains(h.nacre(t, 0, "explain", "--project", h.project), "is not pinned by a digest")
	if want := strings.HasPrefix(named, "sha256:"); pinned != want {
		t.Errorf("%s: pinned is %v, want %v", named, pinned, want)
	}
}

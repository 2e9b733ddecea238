package container

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// idPrefix begins an image's own name.
const idPrefix = "sha256:"

// image is what is started, and what it would have liked to bring along.
type image struct {
	id      string
	pinned  bool
	env     []string // names
	volumes []string
}

func (i image) short() string { return i.id[:min(len(i.id), len(idPrefix)+12)] }

// imageForm is what names of images are made of.
var imageForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,500}$`) })

// findImage finds an image that is there. It is started by its id: what its
// name means later is of no consequence to this session.
func findImage(ctx context.Context, engine *engine, name string) (image, error) {
	if !imageForm().MatchString(name) || strings.Contains(name, "..") {
		return image{}, fmt.Errorf("image %.200q: write NAME, NAME:TAG, NAME@sha256:… or sha256:…", name)
	}
	found, err := engine.image(ctx, name)
	if err != nil {
		return image{}, fmt.Errorf("image %s: %w: build or pull it first, nacre does not", name, err)
	}
	i := image{id: found.ID}
	if !strings.HasPrefix(i.id, idPrefix) {
		i.id = idPrefix + i.id // podman leaves it out
	}
	switch _, digest, named := strings.Cut(name, "@"); {
	case strings.HasPrefix(name, idPrefix):
		i.pinned = name == i.id
	case named:
		i.pinned = digest == i.id || slices.ContainsFunc(found.RepoDigests, func(d string) bool { return strings.HasSuffix(d, "@"+digest) })
	}
	if !i.pinned && (strings.HasPrefix(name, idPrefix) || strings.Contains(name, "@")) {
		return image{}, fmt.Errorf("image %s: the engine has %s under that name: refused", name, i.id)
	}
	if found.Config == nil {
		return i, nil
	}
	for _, kv := range found.Config.Env {
		key, _, _ := strings.Cut(kv, "=")
		i.env = append(i.env, key)
	}
	for volume := range found.Config.Volumes {
		i.volumes = append(i.volumes, path.Clean("/"+volume))
	}
	slices.Sort(i.volumes)
	return i, nil
}

// blankEnv takes back the image's variables: PID 1 gets none of them, and the
// agent gets the posture's only.
func (i image) blankEnv() []string {
	env := []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
	for _, key := range i.env {
		if key != "GODEBUG" {
			env = append(env, key+"=")
		}
	}
	return env
}

// coverVolumes puts an empty read-only place where the image wants a volume,
// which would be storage of the engine's that outlives the sandbox.
func (i image) coverVolumes(l *layout) error {
	for _, v := range i.volumes {
		if slices.ContainsFunc(l.entries, func(e entry) bool { return e.target == v }) {
			continue
		}
		if v == "/" || slices.ContainsFunc(l.entries, func(e entry) bool { return within(v, e.target) || e.kind == kindBind && within(e.target, v) }) {
			return fmt.Errorf("the image declares a volume at %s, over or below what the sandbox mounts: use another image", v)
		}
		l.entries = append(l.entries, entry{kind: kindTmpfs, target: v, readOnly: true, size: emptySize, mode: 0o555})
	}
	return nil
}

// within reports whether name is dir or below it.
func within(dir, name string) bool {
	return dir == name || dir == "/" || strings.HasPrefix(name, dir+"/")
}

var errNoPlace = errors.New("does not exist in what is bound above it: create it on the host first")

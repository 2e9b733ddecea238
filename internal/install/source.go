package install

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
)

// source is where a plugin comes from: a git repository, or a folder.
type source struct {
	// text is what is recorded, and given to git.
	text string
	// protocol is git's name of the one way to get there; empty for a folder.
	protocol string
}

const maxSource = 2048 // bytes

var (
	// remoteForm is git's short form of ssh, such as git@example.com:notes.git.
	remoteForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9._~/][^\s\\]*$`)
	})
	refForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,254}$`) })
)

// parseSource reads https, ssh and file URLs, git@host:path, and folders.
func parseSource(s string) (source, error) {
	if s == "" || len(s) > maxSource || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return source{}, errors.New("name a git URL or a folder")
	}
	if remoteForm().MatchString(s) {
		return source{s, "ssh"}, nil
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return parseURL(s, scheme)
	}
	if strings.Contains(s, "::") {
		return source{}, fmt.Errorf("%.80q: git's helpers are not used: give an https or ssh URL, or a folder", s)
	}
	dir, err := filepath.Abs(s)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return source{}, fmt.Errorf("folder %.200q: %w", s, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return source{}, fmt.Errorf("%s is not a folder: give one, or a git URL", dir)
	}
	return source{dir, ""}, nil
}

func parseURL(s, scheme string) (source, error) {
	u, err := url.Parse(s)
	if err != nil {
		return source{}, fmt.Errorf("%.80q is no URL", s)
	}
	switch {
	case scheme == "http" || scheme == "git":
		return source{}, fmt.Errorf("%s:// is not protected on its way: use https or ssh", scheme)
	case scheme != "https" && scheme != "ssh" && scheme != "file":
		return source{}, fmt.Errorf("%.40q: use an https, ssh or file URL, or a folder", scheme+"://")
	case u.RawQuery != "" || u.Fragment != "":
		return source{}, errors.New("a git URL has no ? and no #: say --ref for a branch, tag or commit")
	case scheme == "file" && (u.Host != "" || !filepath.IsAbs(u.Path)):
		return source{}, errors.New("a file URL looks like file:///path/to/repository")
	case scheme != "file" && (u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-")):
		return source{}, errors.New("the URL names no host")
	case strings.Trim(u.Path, "/") == "":
		return source{}, errors.New("the URL names no repository")
	}
	if _, secret := u.User.Password(); secret || scheme == "https" && u.User != nil {
		return source{}, errors.New("a URL must not hold a password or a token: it would be kept and shown; use ssh for what is private")
	}
	if u.User != nil && strings.HasPrefix(u.User.Username(), "-") {
		return source{}, errors.New("the URL's user is none")
	}
	return source{s, scheme}, nil
}

func checkRef(ref string) error {
	if ref != "" && (!refForm().MatchString(ref) || strings.Contains(ref, "..") || strings.HasSuffix(ref, ".lock")) {
		return fmt.Errorf("--ref %.80q: give a branch, a tag, or a commit's 40 hex digits", ref)
	}
	return nil
}

// name is what the source itself would call the plugin.
func (s source) name() (nacre.PluginName, error) {
	at := strings.TrimRight(s.text, "/")
	at = at[strings.LastIndexAny(at, "/:")+1:]
	name, err := nacre.ParsePluginName(strings.ToLower(strings.TrimSuffix(at, ".git")))
	if err != nil {
		return "", fmt.Errorf("%w, or choose one with --name", err)
	}
	return name, nil
}

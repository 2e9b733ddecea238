package leasing

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/config"
)

// remotes are variables with which git asks over https for the repositories that credentials are
// for, although a remote names one as ssh does. No key and no agent of SSH is inside.
func (l *Credentials) remotes() []string {
	var settings [][2]string
	for _, h := range l.holds {
		for _, s := range overHTTPS(h.config) {
			if !slices.Contains(settings, s) { // several credentials may be for one repository
				settings = append(settings, s)
			}
		}
	}
	if len(settings) == 0 {
		return nil
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

// overHTTPS are settings of git: each repository's URL, and what is read as it.
func overHTTPS(c config.Credential) (settings [][2]string) {
	if c.Inside() {
		return nil
	}
	rule := c.Rule(nil)
	host := rule.Host
	if rule.Port != 443 {
		host = net.JoinHostPort(rule.Host, strconv.Itoa(int(rule.Port)))
	}
	for _, path := range c.Repositories {
		key := "url.https://" + host + path + ".insteadOf"
		for _, remote := range []string{"git@" + rule.Host + ":" + strings.TrimPrefix(path, "/"), "ssh://git@" + rule.Host + path, "ssh://git@" + rule.Host + ":22" + path} {
			settings = append(settings, [2]string{key, remote})
		}
	}
	return settings
}

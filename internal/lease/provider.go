package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// minter is what a table of one kind holds.
type minter struct {
	kind, keys string
	// leave empties the keys of this kind.
	leave func(*Minting)
	check func(Minting) error
	scope func(Minting) string
	// url is the public API; empty where there is none.
	url func(Minting) string
}

func providers() []minter {
	return []minter{
		{GitHubApp, "app, installation, repositories and permissions", func(m *Minting) { m.App, m.Installation, m.Repositories, m.Permissions = "", "", nil, nil }, Minting.checkGitHub, Minting.gitHubScope, func(Minting) string { return "https://api.github.com" }},
		{Vault, "policies", func(m *Minting) { m.Policies = nil }, Minting.checkVault, func(m Minting) string { return "policies " + strings.Join(m.Policies, ", ") }, func(Minting) string { return "" }},
		{AWSSTS, "role, region and policy", func(m *Minting) { m.Role, m.Region, m.Policy = "", "", "" }, Minting.checkAWS, Minting.awsScope, func(m Minting) string { return "https://sts." + m.Region + ".amazonaws.com" }},
		{Cloudflare, "account, permission_groups and resources", func(m *Minting) { m.Account, m.Groups, m.Resources = "", nil, nil }, Minting.checkCloudflare, func(m Minting) string {
			return strings.Join(m.Resources, ", ") + " (" + strings.Join(m.Groups, ", ") + ")"
		}, func(Minting) string { return "https://api.cloudflare.com" }},
		{GCP, "account and scopes", func(m *Minting) { m.Account, m.Scopes = "", nil }, Minting.checkGCP, func(m Minting) string {
			return m.Account + " (" + strings.ReplaceAll(strings.Join(m.Scopes, ", "), googleScope, "") + ")"
		}, func(Minting) string { return "https://iamcredentials.googleapis.com" }},
		{Registry, "account, service and repositories", func(m *Minting) { m.Account, m.Service, m.Repositories = "", "", nil }, Minting.checkRegistry, func(m Minting) string {
			return "fetching " + strings.Join(m.Repositories, ", ")
		}, func(Minting) string { return "" }},
	}
}

// listed are the kinds, in words.
func listed() string {
	var kinds []string
	for _, p := range providers() {
		kinds = append(kinds, p.kind)
	}
	return strings.Join(kinds[:len(kinds)-1], ", ") + " or " + kinds[len(kinds)-1]
}

// provider is that of the table; ok is false where there is none such.
func (m Minting) provider() (minter, bool) {
	all := providers()
	at := slices.IndexFunc(all, func(p minter) bool { return p.kind == m.Kind })
	if at < 0 {
		return minter{}, false
	}
	return all[at], true
}

func (m Minting) checkVault() error {
	switch {
	case len(m.Policies) == 0 || len(m.Policies) > maxScopes:
		return errors.New("policies names what a token of Vault is for: without any it would have all that its parent has")
	case slices.ContainsFunc(m.Policies, func(p string) bool { return p == "root" || p == "default" || !isScope(p) }):
		return errors.New("policies are names of Vault's policies, and neither root nor default")
	}
	return nil
}

func (m Minting) checkGitHub() error {
	switch {
	case !isNumber(m.App) || !isNumber(m.Installation):
		return errors.New("app and installation are the numbers of a GitHub App and of its installation")
	case len(m.Repositories) == 0 || len(m.Permissions) == 0:
		return errors.New("name repositories and permissions: without both a token would have all that its installation has")
	case len(m.Repositories) > maxScopes || len(m.Permissions) > maxScopes:
		return fmt.Errorf("at most %d repositories and permissions", maxScopes)
	case slices.ContainsFunc(m.Repositories, func(r string) bool { return !isScope(r) }):
		return errors.New("repositories are names without their owner, such as \"widget\"")
	}
	for name, level := range m.Permissions {
		if !isScope(name) || Level(level) == 0 {
			return errors.New("permissions are such as contents = \"read\"; a level is read, write or admin")
		}
	}
	return nil
}

// isRole accepts the ARN of a role of IAM, in any partition of AWS.
func isRole(text string) bool {
	parts := strings.Split(text, ":")
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "iam" || parts[3] != "" {
		return false
	}
	name, ok := strings.CutPrefix(parts[5], "role/")
	return ok && len(parts[4]) == 12 && isNumber(parts[4]) && name != "" && len(name) <= 576 &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_/-") == "" && !strings.HasSuffix(name, "/")
}

func (m Minting) checkAWS() error {
	switch {
	case !isRole(m.Role):
		return errors.New("role is the ARN of a role, such as \"arn:aws:iam::123456789012:role/deploy\"")
	case m.Region == "" || len(m.Region) > 32 || strings.Trim(m.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return errors.New("region is a region of AWS, such as \"eu-west-1\"")
	}
	policy, err := ReadSessionPolicy(m.Policy)
	if err != nil {
		return err
	}
	_, err = policy.Until(time.Time{})
	return err
}

func (m Minting) awsScope() string {
	policy, err := ReadSessionPolicy(m.Policy)
	if err != nil {
		return m.Role // which was refused
	}
	return m.Role + " (" + strings.Join(policy.Actions(), ", ") + ")"
}

func (m Minting) gitHubScope() string {
	var levels []string
	for name, level := range m.Permissions {
		levels = append(levels, name+":"+level)
	}
	slices.Sort(levels)
	return strings.Join(m.Repositories, ", ") + " (" + strings.Join(levels, ", ") + ")"
}

func (m Minting) checkCloudflare() error {
	switch {
	case !isHash(m.Account):
		return errors.New("account is the id of an account of Cloudflare, 32 hexadecimal digits")
	case len(m.Groups) == 0 || len(m.Resources) == 0:
		return errors.New("name permission_groups and resources: a token without either is for nothing, or for all")
	case len(m.Groups) > maxScopes || len(m.Resources) > maxScopes:
		return fmt.Errorf("at most %d permission_groups and resources", maxScopes)
	case slices.ContainsFunc(m.Groups, func(id string) bool { return !isHash(id) }):
		return errors.New("permission_groups are ids, each of 32 hexadecimal digits: GET /client/v4/accounts/ID/tokens/permission_groups lists them")
	case slices.ContainsFunc(m.Resources, func(r string) bool { return !isResource(r) }):
		return errors.New("resources are such as \"com.cloudflare.api.account.zone.ID\" with the id of one object, and never all of a kind")
	}
	return nil
}

// googleScope is what each scope of Google's begins with.
const googleScope = "https://www.googleapis.com/auth/"

func (m Minting) checkGCP() error {
	name, project, _ := strings.Cut(m.Account, "@")
	project, ok := strings.CutSuffix(project, ".iam.gserviceaccount.com")
	switch {
	case !ok || !isEntry(name) || !isEntry(project) || len(m.Account) > maxName:
		return errors.New("account is the address of a service account, such as \"deploy@project.iam.gserviceaccount.com\"")
	case len(m.Scopes) == 0 || len(m.Scopes) > maxScopes:
		return errors.New("scopes names what a token is for, such as \"" + googleScope + "devstorage.read_only\"")
	case slices.ContainsFunc(m.Scopes, func(scope string) bool {
		name, ok := strings.CutPrefix(scope, googleScope)
		return !ok || !isEntry(name)
	}):
		return errors.New("scopes begin with " + googleScope)
	}
	return nil
}

// isResource accepts the name of one object of Cloudflare, which ends with its id.
func isResource(s string) bool {
	at := strings.LastIndexByte(s, '.')
	return len(s) <= maxName && strings.HasPrefix(s, "com.cloudflare.") && isHash(s[at+1:]) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// isHash accepts an id as Cloudflare writes them.
func isHash(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

func isNumber(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

func isScope(s string) bool { return isEntry(s) }

// Package fields tells the names that make a host act on another method than the request's, or for another
// user. They are those of headers, of parameters of a query, and of the fields of forms and JSON
// documents. A body is read as it comes, each byte once, and little of it is kept. It is pure, and decides
// nothing.
package fields

import (
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/urlpath"
)

// behalf are parts of the names of headers and parameters that say for which other user a request is. That
// is the operator's to say. Without it the host would do as the operator what was asked for with the
// rights of another.
func behalf() []string {
	return []string{
		"impersonat", "on-behalf-of-", "onbehalfof", "-runas-", "-run-as-", "-switch-user-", "-remote-user-", "-remote-group-", "-remote-extra-", "-webauth-",
		"-authenticated-user-",
	}
}

// behalfNames are such names as a whole.
func behalfNames() []string {
	return []string{"sudo", "x-sudo", "as-user", "x-as-user", "doas", "do-as", "mscrmcallerid", "callerobjectid"}
}

// ForAnother reports whether a header or parameter says so.
func ForAnother(name string) bool {
	name = Named(name)
	words := "-" + name + "-"
	return slices.Contains(behalfNames(), name) || slices.ContainsFunc(behalf(), func(part string) bool { return strings.Contains(words, part) })
}

// Spelled folds what servers take for one name.
func Spelled(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// Named is what a server reads of a name: not what an object's metadata is called
// (X-Amz-Meta-Copy-From).
func Named(name string) string {
	name = Spelled(name)
	if parts := strings.SplitN(name, "-", 4); len(parts) == 4 && parts[0] == "x" && parts[2] == "meta" {
		return strings.TrimSuffix(name, "-"+parts[3])
	}
	return name
}

// Steers reports whether a parameter or a field of a body makes the host act on another method,
// or for another user.
func Steers(name string) bool { return ChangesMethod(name) || ForAnother(name) }

// methodParameters make frameworks act on another method than the request's, with a dash for each
// underscore. methodParts do so wherever they stand in a name.
func methodParameters() []string {
	return []string{
		"-method", "--method", "$method", "-http-method", "-httpmethod", "$http-method", "$httpmethod", "x-http-method", "-verb", "$verb", "x-http-verb",
	}
}

func methodParts() []string {
	return []string{"method-override", "methodoverride", "override-method", "overridemethod", "verb-override"}
}

// ChangesMethod reports whether a header, parameter or field does so.
func ChangesMethod(name string) bool {
	name = Spelled(name)
	return slices.Contains(methodParameters(), name) || slices.ContainsFunc(methodParts(), func(part string) bool { return strings.Contains(name, part) })
}

// Parameter is how a server may read a parameter's name: decoded, without
// what stands in brackets, and with an underscore for what PHP takes for one.
func Parameter(name string) string {
	name = decoded(name)
	if strings.Contains(name, "]") {
		name, _, _ = strings.Cut(name, "[")
	}
	return plain(name)
}

// mayGoOnToSteer reports whether a parameter's name of which only the beginning was kept may be one that
// steers. What follows may all be what servers pass over: spaces before a name, spaces and zeros behind
// it, brackets.
func mayGoOnToSteer(name string) bool {
	name = decoded(name)
	if cut := strings.LastIndexByte(name, '%'); cut >= 0 && cut >= len(name)-len("%2") {
		name = name[:cut] // half of an escape
	}
	name, _, bracketed := strings.Cut(name, "[")
	name = strings.TrimRight(plain(name), "_\x00")
	return name == "" && !bracketed || Steers(name)
}

func decoded(name string) string {
	for range urlpath.MaxDecodings {
		next, _ := urlpath.Unescape(strings.ReplaceAll(name, "+", " "))
		if next == name {
			break
		}
		name = next
	}
	return name
}

func plain(name string) string {
	name = strings.TrimSpace(strings.TrimRight(name, "\x00"))
	return strings.ToLower(strings.NewReplacer("[", "_", ".", "_", " ", "_").Replace(name))
}

package learned

import (
	"fmt"
	"strings"
)

// Texts are what the approval allows, a line each, for a person to read.
func (l Approval) Texts() (texts []string) {
	for _, h := range l.Hosts {
		texts = append(texts, h.text())
	}
	for _, u := range l.Uses {
		host := Host{Host: u.Host, Methods: u.Methods, Paths: u.Paths}
		texts = append(texts, fmt.Sprintf("%s with the credential %s, for the group %s", host.text(), u.Credential, u.Group))
	}
	for _, t := range l.Tools {
		texts = append(texts, t.text())
	}
	for _, f := range l.Folders {
		texts = append(texts, fmt.Sprintf("the folder %s, read-only, for the group %s", f.Folder, f.Group))
	}
	return texts
}

// text is a host with what may be asked of it.
func (h Host) text() string {
	if len(h.Methods) == 0 {
		return h.Host + " by its name"
	}
	return h.Host + " " + strings.Join(h.Methods, ",") + " " + strings.Join(h.Paths, " ")
}

// text is a tool with how many arguments it may be called with.
func (t Tool) text() string {
	how := "with any arguments"
	switch n := len(t.Arguments); {
	case n == 1:
		how = "with exactly the arguments that were seen"
	case n > 1:
		how = fmt.Sprintf("with exactly the %d arguments that were seen", n)
	}
	return fmt.Sprintf("the tool %s %s, for the group %s", t.Tool, how, t.Group)
}

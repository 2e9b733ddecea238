package approval

import (
	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// folder shows which folder of the host would be seen inside, and what is in it; it is false
// for any other question.
func (r *renderer) folder(q nacre.Question) bool {
	asked, ok := question.FolderOf(q)
	if !ok {
		return false
	}
	r.line("? %s  %s wants to see a folder", question.Escape(q.ID), r.shown(string(q.Group), maxWhy))
	r.line("    folder     %s", r.shown(asked.Folder, maxArguments))
	r.line("    written    %s", r.shown(asked.Asked, maxArguments))
	r.line("    holds      %s", r.shown(asked.Holds, maxWhy))
	if asked.Keys != "" {
		r.line("    look       %s", r.shown(asked.Keys, maxWhy))
	}
	for _, look := range question.Looks(q) {
		r.line("    look       %s", r.shown(look, maxWhy))
	}
	r.line("    shows      all of it, %s, at %s, until the session ends or as long as you say", r.shown(asked.Access, maxWhy), r.shown(asked.Inside, maxWhy))
	r.origins(q)
	r.reason(q)
	r.words(q)
	r.expiry(q)
	return true
}

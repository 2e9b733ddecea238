package approval

import (
	"os"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
)

// Here is the press of the user who runs this process, at a terminal that showed the whole
// question.
func Here(q nacre.Question, r nacre.Ruling) nacre.Press {
	return nacre.Press{ID: q.ID, Identity: string(person.OfUser(os.Geteuid())), Shown: question.Of(q).Digest(), Ruling: r}
}

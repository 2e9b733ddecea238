package search

import (
	"sync"

	"github.com/nacre-dev/nacre/internal/tree"
)

// names are those of files that have several. A package manager may have linked one from its cache: what an agent
// wrote to it is in the cache, too.
type names struct {
	mu    sync.Mutex
	files map[inode]*linked
}

// inode is what the names of one file share.
type inode struct{ device, number uint64 }

// linked is a file with several names: how many there are in the project, and everywhere, and one where it is new.
type linked struct {
	here, links uint64
	name        string
}

func (n *names) add(name string, e tree.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := inode{e.Device, e.Inode}
	if n.files[at] == nil {
		n.files[at] = &linked{links: e.Links}
	}
	n.files[at].here++
	if e.New {
		n.files[at].name = name
	}
}

// outside gives a name of each that is new and has others outside of the project.
func (n *names) outside() (found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, file := range n.files {
		if file.name != "" && file.links > file.here {
			found = append(found, file.name)
		}
	}
	return found
}

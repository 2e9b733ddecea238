package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"strings"
)

// liveSockets are the paths to which the host's sockets are bound, in folders
// without links: one was bound under any name of its folder. Some are relative to
// the folder of whoever bound them.
func liveSockets(known folders) ([]string, error) {
	table, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("the host's sockets: %w", err)
	}
	defer func() { _ = table.Close() }()
	found := []string{}
	lines := bufio.NewScanner(table)
	lines.Scan() // what the columns are
	for lines.Scan() {
		name := boundTo(lines.Text())
		switch {
		case name == "" || name[0] == '@':
		case path.IsAbs(name):
			if folder := known.folder(path.Dir(name)); folder != "" {
				found = append(found, path.Join(folder, path.Base(name)))
			}
		default:
			found = append(found, name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the host's sockets: %w", err)
	}
	return found, nil
}

// boundTo is the path in a line of the table: what follows seven fields.
func boundTo(line string) string {
	for range 6 {
		_, line, _ = strings.Cut(line, " ")
	}
	_, name, _ := strings.Cut(strings.TrimLeft(line, " "), " ") // the number of the inode is padded
	return name
}

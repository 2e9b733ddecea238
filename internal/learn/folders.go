package learn

import (
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// apartFolder is why no folder is approved with all.
const apartFolder = "shows files of this machine"

// Folder is a folder of the host that an agent asked for and was not shown, as its record tells it.
type Folder struct {
	Seen
	Folder string
	// Why says that nobody is shown it; empty where a person was asked.
	Why string
}

// addFolder reads the record of a folder. One that was shown in the session was not refused.
func (r *reader) addFolder(e audit.Entry) error {
	if e.Kind != nacre.KindApprovalAsk && e.Kind != nacre.KindMountGrant && e.Kind != nacre.KindMountRefuse {
		return nil
	}
	var d struct{ Folder, Asked string }
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("record %d: %w", e.Seq, err)
	}
	f := Folder{Seen: r.seen(e), Folder: d.Folder}
	if e.Kind == nacre.KindMountGrant {
		r.shown[d.Folder] = true
		return nil
	}
	if e.Kind == nacre.KindMountRefuse {
		f.Folder, f.Why = d.Asked, e.Reason
	}
	if f.Folder != "" && len(r.folders) < maxRefusals { // a question about something else names none
		r.folders = append(r.folders, f)
	}
	return nil
}

// lineOfFolder makes one line of all that asked for a folder in a group.
func lineOfFolder(k key, folders []Folder) Line {
	line := Line{Folder: k.folder, Group: k.group, Times: len(folders), Apart: []string{apartFolder}}
	untrusted := true
	for _, f := range folders {
		untrusted = untrusted && f.Untrusted
		if len(line.Evidence) < maxEvidence {
			line.Evidence = append(line.Evidence, fmt.Sprintf("%s#%d", f.Chain, f.Seq))
		}
	}
	if untrusted {
		line.Apart = append(line.Apart, apartUntrusted)
	}
	return line
}

func folderText(folder string, group nacre.Group) string {
	return fmt.Sprintf("the folder %s, for the group %s", folder, group)
}

// letsFolder tells whether the line would have shown a folder that was asked for.
func (l Line) letsFolder(f Folder) bool {
	return f.Why == "" && f.Folder == l.Folder && f.Group == l.Group
}

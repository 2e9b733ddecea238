package verify

import (
	"bytes"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"
)

// jestFile is one test file in the JSON that jest and vitest write.
type jestFile struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	Message    string `json:"message"`
	Assertions []struct {
		FullName  string   `json:"fullName"`
		Ancestors []string `json:"ancestorTitles"`
		Title     string   `json:"title"`
		Status    string   `json:"status"`
		Failures  []string `json:"failureMessages"`
	} `json:"assertionResults"`
}

// jestReport reads the one report in an output, if there is one. Two are none:
// the code under test has printed the other.
func jestReport(data []byte) (*results, bool) {
	r, found := newResults(), false
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(line, []byte(`{"`)) || !bytes.Contains(line, []byte(`"testResults"`)) {
			continue
		}
		var report struct {
			Success bool       `json:"success"`
			Failed  int        `json:"numFailedTests"`
			Files   []jestFile `json:"testResults"`
		}
		if json.Unmarshal(line, &report) != nil {
			continue
		}
		if found {
			r.strange("there are two reports")
		}
		found = true
		for _, f := range report.Files {
			r.jestFile(f)
		}
		if failed := r.count(red); report.Success && failed > 0 || report.Failed > failed {
			r.strange("the report counts %d failed tests, and lists %d", report.Failed, failed)
		}
	}
	return r, found
}

func (r *results) jestFile(f jestFile) {
	// The copies that the tests run in have names of their own.
	file := shortName(f.Name)
	if len(f.Assertions) == 0 && f.Status == "failed" {
		r.says(building, file+": "+f.Message+"\n")
	}
	for _, a := range f.Assertions {
		name := file + " > " + strings.Join(append(a.Ancestors, a.Title), " > ")
		r.says(name, strings.Join(a.Failures, "\n"))
		r.again(name, statusOf(a.Status))
	}
}

// shortName is a path below the copy: what follows its folder's random name,
// or the folder that a sandbox binds it at.
func shortName(name string) string {
	name = filepath.ToSlash(name)
	if _, rest, ok := strings.Cut(name, "/verify-"); ok {
		if _, rest, ok = strings.Cut(rest, "/"); ok {
			return rest
		}
	}
	if !path.IsAbs(name) {
		return name
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "/workspace/"), "/")
}

package gitdir

// ReadRefs reads the refs of a repository into the text of a packed-refs file.
func ReadRefs(gitDir string) (commit, packed string, err error) {
	r, err := readRefs(gitDir, gitDir)
	return r.commit, string(r.packed), err
}

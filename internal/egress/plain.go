package egress

// requestList are the requests that each host may be asked, of those that are not asked
// anything.
type requestList map[target][]Credential

// listed says whether a request over plain HTTP is one of those that its host may be
// asked. A host that is not in the list may be asked anything.
func (l requestList) listed(t target, method, path string) error {
	list := l[t]
	if len(list) == 0 {
		return nil
	}
	path, _, err := splitTarget(path)
	if err != nil {
		return err
	}
	if _, reason := choose(list, method, path); reason != ReasonListed {
		return refusal(reason, "")
	}
	return nil
}

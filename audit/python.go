package audit

import _ "embed" // the second verifier

//go:embed verify_audit.py
var pythonVerifier string

// PythonVerifier is the text of verify_audit.py, the second verifier: Python 3,
// its standard library only, and no code of this package.
func PythonVerifier() string { return pythonVerifier }

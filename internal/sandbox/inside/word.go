package inside

import (
	"io"
)

// Word is what the host says to PID 1 while the agent runs.
type Word byte

// The words.
const (
	// Freeze stops every process but PID 1.
	Freeze Word = 'F'
	// Thaw lets them go on.
	Thaw Word = 'T'
	// End kills every process but PID 1, which reports the agent's end: where the files
	// are not the host's, they are still to be had.
	End Word = 'E'
)

// Say says a word to PID 1.
func Say(control io.Writer, w Word) error {
	_, err := control.Write([]byte{byte(w)})
	return err
}

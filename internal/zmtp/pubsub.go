package zmtp

// The commands of ZMTP 3.1 by which a SUB says what it wants. In 3.0 the same
// is a message that begins with one of two bytes.
const (
	Subscribe = "SUBSCRIBE"
	Cancel    = "CANCEL"
)

const (
	cancelByte    = 0
	subscribeByte = 1
)

// Version is a version of the protocol, as a greeting states it.
type Version struct{ Major, Minor byte }

// commands reports whether a peer of the version takes subscriptions as commands.
func (v Version) commands() bool { return v.Major > 3 || v.Major == 3 && v.Minor >= 1 }

// Peer is the version that the peer's greeting stated; zero before Greeting returned.
func (r *Reader) Peer() Version { return r.peer }

// Subscription reads a change of what a SUB wants: from now on messages whose
// first part begins with prefix, or no longer. ok is false for any other item.
func Subscription(item Item) (prefix []byte, on, ok bool) {
	switch {
	case item.Command == Subscribe || item.Command == Cancel:
		return item.Body, item.Command == Subscribe, true
	case item.Command != "" || len(item.Parts) != 1 || len(item.Parts[0]) == 0 || item.Parts[0][0] > subscribeByte:
		return nil, false, false
	}
	return item.Parts[0][1:], item.Parts[0][0] == subscribeByte, true
}

// AppendSubscription appends what tells a PUB of version v that messages whose
// first part begins with prefix are wanted, or no longer. With a peer before
// 3.1 it is a message. A prefix is at most 255 bytes.
func AppendSubscription(dst []byte, v Version, prefix string, on bool) []byte {
	name, first := Cancel, byte(cancelByte)
	if on {
		name, first = Subscribe, subscribeByte
	}
	if v.commands() {
		return AppendCommand(dst, name, []byte(prefix))
	}
	return AppendMessage(dst, append([]byte{first}, prefix...))
}

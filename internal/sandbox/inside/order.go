//go:build linux

package inside

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles come with a plan at most.
	maxFiles = 1024
	// filesAtOnce go with one byte of the control socket; the kernel takes 253.
	filesAtOnce = 250
)

// order is a plan and how many descriptors follow it: the agent's three streams,
// then the mount trees.
type order struct {
	Plan  Plan
	Files int
}

// SendOrder hands PID 1 its plan, so that it begins.
func SendOrder(control *os.File, plan Plan, streams [3]*os.File, trees []*os.File) error {
	files := append(streams[:], trees...)
	if err := Send(control, order{plan, len(files)}); err != nil {
		return err
	}
	raw, err := control.SyscallConn()
	if err != nil {
		return err
	}
	for len(files) > 0 {
		n := min(len(files), filesAtOnce)
		if err := sendFiles(raw, files[:n]); err != nil {
			return fmt.Errorf("descriptors: %w", err)
		}
		files = files[n:]
	}
	return nil
}

func sendFiles(raw syscall.RawConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var sent error
	err := raw.Write(func(control uintptr) bool {
		sent = unix.Sendmsg(int(control), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, sent)
}

// receiveOrder returns a plan, whose trees are descriptors of this process now,
// and the agent's streams.
func receiveOrder(control *os.File) (plan Plan, streams [3]uintptr, err error) {
	var o order
	if err := Receive(control, &o); err != nil {
		return plan, streams, err
	}
	if o.Files < len(streams) || o.Files > maxFiles {
		return plan, streams, fmt.Errorf("%d descriptors come with it", o.Files)
	}
	var files []int
	for len(files) < o.Files {
		more, err := receiveFiles(int(control.Fd()))
		if err != nil {
			return plan, streams, fmt.Errorf("descriptors: %w", err)
		}
		files = append(files, more...)
	}
	for i := range streams {
		streams[i] = uintptr(files[i])
	}
	trees := files[len(streams):]
	if o.Plan.Network, err = descriptor(trees, o.Plan.Network); err != nil {
		return plan, streams, fmt.Errorf("network: %w", err)
	}
	for i := range o.Plan.Mounts {
		m := &o.Plan.Mounts[i]
		if err := m.receive(trees); err != nil {
			return plan, streams, err
		}
		if m.Layer != nil {
			if err := m.Layer.receive(trees); err != nil {
				return plan, streams, err
			}
		}
	}
	return o.Plan, streams, nil
}

// receive takes the mount's tree from those that came with the plan.
func (m *Mount) receive(trees []int) error {
	fd, err := descriptor(trees, m.FD)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	m.FD = fd
	return nil
}

// descriptor is the one that a plan counts from one; zero stays zero.
func descriptor(came []int, count int) (int, error) {
	if count < 0 || count > len(came) {
		return 0, fmt.Errorf("descriptor %d did not come with the plan", count)
	}
	if count == 0 {
		return 0, nil
	}
	return came[count-1], nil
}

// receiveFiles takes what goes with one byte.
func receiveFiles(control int) ([]int, error) {
	data, room := make([]byte, 1), make([]byte, unix.CmsgSpace(4*filesAtOnce))
	for {
		n, size, flags, _, err := unix.Recvmsg(control, data, room, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := unix.ParseSocketControlMessage(room[:size])
		if err != nil {
			return nil, err
		}
		if n != 1 || len(messages) != 1 || flags&unix.MSG_CTRUNC != 0 {
			return nil, errors.New("they are not complete")
		}
		return unix.ParseUnixRights(&messages[0])
	}
}

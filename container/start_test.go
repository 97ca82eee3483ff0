package container

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/namespaces"
)

// What nsexec is told is what libcontainer itself would tell it: an update of
// libcontainer that changes the words must not go unnoticed.
func TestBootstrapIsLibcontainers(t *testing.T) {
	const flags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	type part interface{ Serialize() []byte }
	for uid, last := range map[int]part{
		0:    &libcontainer.Boolmsg{Type: libcontainer.SetgroupAttr, Value: true},
		1500: &libcontainer.Boolmsg{Type: libcontainer.RootlessEUIDAttr, Value: true},
	} {
		u, g := namespaces.Choose(uid, uid).CellMaps()
		var want []byte
		for _, p := range []part{
			&libcontainer.Int32msg{Type: libcontainer.CloneFlagsAttr, Value: flags},
			&libcontainer.Bytemsg{Type: libcontainer.UidmapAttr, Value: []byte(u.String() + "\n")},
			&libcontainer.Bytemsg{Type: libcontainer.GidmapAttr, Value: []byte(g.String() + "\n")},
			last,
		} {
			want = append(want, p.Serialize()...)
		}
		head := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(want)))
		head = binary.NativeEndian.AppendUint16(head, libcontainer.InitMsg)
		want = append(append(head, make([]byte, unix.NLMSG_HDRLEN-len(head))...), want...)
		if got := bootstrap(cellConfig("/", uid, uid)); !bytes.Equal(got, want) {
			t.Errorf("user %d:\n%q, want\n%q", uid, got, want)
		}
	}
}

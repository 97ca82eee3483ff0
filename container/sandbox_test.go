package container

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// A seat is told to do again what it was sent, not what was meant for it: an
// order that was not sent must not have the next one do what an earlier one said.
func TestOrderThatIsNotSent(t *testing.T) {
	tape := func() keeper.Tape {
		b := keeper.NewBuilder(1)
		b.Call("nothing", unix.SYS_GETPID)
		tape, err := b.Encode(keeper.MsgSandbox, 0)
		if err != nil {
			t.Fatal(err)
		}
		return tape
	}
	ours, theirs, err := sockPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.close()
	defer theirs.Close()
	s := &Seat{sock: ours}
	first, second := tape(), tape()
	told := func(want int) {
		t.Helper()
		b := make([]byte, 2*len(first.Message))
		if n, err := unix.Read(int(theirs.Fd()), b); err != nil || n != want {
			t.Errorf("the seat is told %d bytes, %v; want %d", n, err, want)
		}
	}
	short := len(keeper.Message(keeper.MsgSandbox, keeper.FlagAgain))
	for _, o := range []struct {
		tape keeper.Tape
		fds  []int
		want int
	}{
		{first, nil, len(first.Message)}, {first, nil, short},
		{second, []int{-1}, 0}, // no such descriptor
		{second, nil, len(second.Message)}, {second, nil, short},
	} {
		if err := s.order(o.tape, o.fds); (err == nil) != (o.want > 0) {
			t.Fatalf("sending %d bytes gives %v", o.want, err)
		}
		if o.want > 0 {
			told(o.want)
		}
	}
}

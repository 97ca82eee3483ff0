package netd

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// wire is a link whose device is a socket; what it writes is read from there.
type wire struct {
	t    *testing.T
	link *tunLink
	far  int
}

func newWire(t *testing.T) *wire {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	link, err := Device(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t, link.(*tunLink), pair[0]}
	w.link.Attach(sinkhole{})
	t.Cleanup(func() { w.link.Attach(nil); unix.Close(w.far) })
	return w
}

// sinkhole takes packets and does nothing.
type sinkhole struct{ stack.NetworkDispatcher }

func (sinkhole) DeliverNetworkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) {}

// says brings a packet of the program's.
func (w *wire) says(flags header.TCPFlags, text string) {
	w.brings(flags, text)
	w.link.receive()
}

func (w *wire) brings(flags header.TCPFlags, text string) {
	w.t.Helper()
	p := append(make([]byte, virtioHeader), packet(uint8(header.TCPProtocolNumber), Gateway, append(segment(1000, 7, flags), text...))...)
	if _, err := unix.Write(w.far, p); err != nil {
		w.t.Fatal(err)
	}
}

func segment(from, to uint16, flags header.TCPFlags) []byte {
	h := header.TCP(make([]byte, header.TCPMinimumSize))
	h.Encode(&header.TCPFields{SrcPort: from, DstPort: to, Flags: flags, DataOffset: header.TCPMinimumSize})
	return h
}

// answers sends a packet of the stack's to a port of the program's.
func (w *wire) answers(to uint16, flags header.TCPFlags, text string) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{ReserveHeaderBytes: header.IPv4MinimumSize + header.TCPMinimumSize, Payload: buffer.MakeWithData([]byte(text))})
	defer pkt.DecRef()
	pkt.TransportProtocolNumber, pkt.NetworkProtocolNumber = header.TCPProtocolNumber, ipv4.ProtocolNumber
	copy(pkt.TransportHeader().Push(header.TCPMinimumSize), segment(7, to, flags))
	from, inside := Gateway.As4(), Inside.As4()
	header.IPv4(pkt.NetworkHeader().Push(header.IPv4MinimumSize)).Encode(&header.IPv4Fields{TotalLength: uint16(pkt.Size()), TTL: 64,
		Protocol: uint8(header.TCPProtocolNumber), SrcAddr: tcpip.AddrFrom4(from), DstAddr: tcpip.AddrFrom4(inside)})
	var list stack.PacketBufferList
	list.PushBack(pkt)
	if n, err := w.link.WritePackets(list); n != 1 || err != nil {
		w.t.Errorf("wrote %d: %v", n, err)
	}
}

// written checks what was written since: port and payload of each packet.
func (w *wire) written(want ...string) {
	w.t.Helper()
	var got []string
	for b := make([]byte, 1<<16); ; {
		n, err := unix.Read(w.far, b)
		if err != nil {
			break
		}
		h := header.TCP(b[virtioHeader+header.IPv4MinimumSize : n])
		got = append(got, fmt.Sprint(h.DestinationPort(), " ", string(h.Payload())))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("written: %q, want %q", got, want)
	}
}

const question, ack = header.TCPFlagAck | header.TCPFlagPsh, header.TCPFlagAck

// The acknowledgement of a question goes with the answer.
func TestAnswerCarriesAcknowledgement(t *testing.T) {
	w := newWire(t)
	for range 3 {
		w.says(question, "who?")
		w.answers(1000, ack, "")
		w.written()
		w.answers(1000, question, "me")
		w.written("1000 me")
		w.says(ack, "")
	}
	w.link.settle()
	w.written()
}

// Without an answer it goes by itself, and before anything else.
func TestAcknowledgementIsNotLost(t *testing.T) {
	for what, next := range map[string]func(*wire){
		"the loop sleeps":     func(w *wire) { w.link.settle(); w.written("1000 ") },
		"the next packet in":  func(w *wire) { w.says(question, "there?"); w.written("1000 ") },
		"another connection":  func(w *wire) { w.answers(1001, question, "x"); w.written("1000 ", "1001 x") },
		"a reset of another":  func(w *wire) { w.answers(1001, header.TCPFlagRst, ""); w.written("1000 ", "1001 ") },
		"one more of its own": func(w *wire) { w.answers(1000, ack, ""); w.written("1000 ") },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWire(t)
			w.says(question, "who?")
			w.answers(1000, ack, "")
			w.written()
			next(w)
		})
	}
}

// Who sends a lot must not wait for room.
func TestOtherAcknowledgementsGoAtOnce(t *testing.T) {
	w := newWire(t)
	w.says(ack, "more to come")
	w.answers(1000, ack, "")
	w.written("1000 ")
	w.says(ack, "")
	w.answers(1000, ack, "")
	w.written("1000 ")
	w.brings(ack, "a lot")
	w.says(question, "and its end")
	w.answers(1000, ack, "")
	w.written("1000 ")
	w.says(question, string(make([]byte, small)))
	w.answers(1000, ack, "")
	w.written("1000 ")
}

// Nothing is read from or written to a device that was closed.
func TestClosedDevice(t *testing.T) {
	w := newWire(t)
	w.says(question, "who?")
	w.answers(1000, ack, "")
	w.link.Attach(nil)
	var pair [2]int // one of them has the number of the device
	if err := unix.Pipe2(pair[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	w.link.settle()
	w.link.receive()
	if n, err := unix.Read(pair[0], make([]byte, 100)); n > 0 {
		t.Errorf("%d bytes went to another file: %v", n, err)
	}
}

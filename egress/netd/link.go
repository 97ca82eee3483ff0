package netd

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// tunLink is a link over a TUN device without packet information. It waits in
// the run time's poller: gVisor's own endpoint for descriptors blocks a thread in
// ppoll, and each packet then costs a hand-over between threads.
type tunLink struct {
	file *os.File
	fd   int

	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
	closed     func()
	reader     sync.WaitGroup
}

var _ stack.LinkEndpoint = (*tunLink)(nil)

// Device makes a link of a TUN device, which it takes over.
func Device(fd int) (stack.LinkEndpoint, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use the device: %w", err)
	}
	return &tunLink{file: os.NewFile(uintptr(fd), "device"), fd: fd}, nil
}

// Attach starts reading; nil stops it.
func (l *tunLink) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	old := l.dispatcher
	l.dispatcher = d
	l.mu.Unlock()
	if old == nil && d != nil {
		l.reader.Go(l.read)
	}
	if old != nil && d == nil {
		l.file.Close()
	}
}

// read is the only reader: several would change the order of packets.
func (l *tunLink) read() {
	b := make([]byte, 65536)
	for {
		n, err := l.file.Read(b)
		if err != nil {
			return
		}
		if n == 0 {
			continue
		}
		var proto tcpip.NetworkProtocolNumber
		switch header.IPVersion(b[:n]) {
		case header.IPv4Version:
			proto = ipv4.ProtocolNumber
		case header.IPv6Version:
			proto = header.IPv6ProtocolNumber
		default:
			continue
		}
		l.mu.RLock()
		d := l.dispatcher
		l.mu.RUnlock()
		if d == nil {
			return
		}
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b[:n])})
		// the kernel made it, and nothing was on a wire
		pkt.RXChecksumValidated = true
		d.DeliverNetworkPacket(proto, pkt)
		pkt.DecRef()
	}
}

// WritePackets writes each packet with one call. What the device has no room
// for is dropped, as on any link.
func (l *tunLink) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	n := 0
	for _, pkt := range list.AsSlice() {
		if _, err := unix.Writev(l.fd, pkt.AsSlices()); err != nil && err != unix.EAGAIN && err != unix.EINTR && err != unix.ENOBUFS {
			return n, &tcpip.ErrAborted{}
		}
		n++
	}
	return n, nil
}

// The rest says what the link is.

// MTU is fixed.
func (l *tunLink) MTU() uint32 { return MTU }

// SetMTU does nothing.
func (l *tunLink) SetMTU(uint32) {}

// Capabilities are those of a device in memory.
func (l *tunLink) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

// MaxHeaderLength is 0: there is no header.
func (l *tunLink) MaxHeaderLength() uint16 { return 0 }

// LinkAddress is none.
func (l *tunLink) LinkAddress() tcpip.LinkAddress { return "" }

// SetLinkAddress does nothing.
func (l *tunLink) SetLinkAddress(tcpip.LinkAddress) {}

// ARPHardwareType is none.
func (l *tunLink) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }

// AddHeader does nothing.
func (l *tunLink) AddHeader(*stack.PacketBuffer) {}

// ParseHeader does nothing.
func (l *tunLink) ParseHeader(*stack.PacketBuffer) bool { return true }

// IsAttached tells whether it reads.
func (l *tunLink) IsAttached() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dispatcher != nil
}

// Wait waits for the reader.
func (l *tunLink) Wait() { l.reader.Wait() }

// Close tells who asked to be told.
func (l *tunLink) Close() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed != nil {
		l.closed()
	}
}

// SetOnCloseAction says who is to be told.
func (l *tunLink) SetOnCloseAction(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = f
}

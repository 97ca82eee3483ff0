package netd

import (
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// tunLink is a link over a TUN device without packet information and with a
// header of virtio before each packet, so that nobody computes checksums of what
// never leaves the memory. The loop reads it.
type tunLink struct {
	fd int
	// in is the view that the next packet is read into.
	in   *buffer.View
	late late

	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
	closed     func()
}

var (
	_ stack.LinkEndpoint = (*tunLink)(nil)
	_ source             = (*tunLink)(nil)
)

// Device makes a link of a TUN device, which it takes over.
func Device(fd int) (stack.LinkEndpoint, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use the device: %w", err)
	}
	return &tunLink{fd: fd}, nil
}

// Attach says who gets the packets; nil closes the device.
func (l *tunLink) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dispatcher != nil && d == nil {
		unix.Close(l.fd)
		l.fd = -1
	}
	l.dispatcher = d
}

func (l *tunLink) descriptor() int { return l.fd }

// The header of virtio (struct virtio_net_hdr, virtio 1.2, 5.1.6): flags, one
// byte about segments, two numbers about segments, where the checksum begins
// and where it is stored, in the machine's byte order.
const (
	virtioHeader = 10
	virtioStart  = 6
	virtioOffset = 8
)

const (
	// packets is how many are taken before the stack has its turn.
	packets = 32
	// small packets are copied into views of their own size: a program could
	// make one of 64 KiB wait for each byte it sends.
	small = 32 << 10
)

// receive reads packets. There is one reader: several would change the order.
func (l *tunLink) receive() {
	l.settle()
	for i := range packets {
		if l.in == nil {
			l.in = buffer.NewViewSize(buffer.MaxChunkSize)
		}
		n, d := l.read(l.in.AsSlice())
		if n <= virtioHeader {
			return
		}
		question := n <= small && asks(l.in.AsSlice()[virtioHeader:n])
		if i == 0 && question {
			l.late.expect()
		}
		l.deliver(d, n)
		if question { // nothing comes behind it; if it does, that is another event
			return
		}
	}
}

// read reads a packet and says who gets it. Nothing is read from a device that
// was closed: its number may be another file's.
func (l *tunLink) read(b []byte) (int, stack.NetworkDispatcher) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dispatcher == nil {
		return 0, nil
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(l.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, nil
	}
	return int(n), l.dispatcher
}

// settle sends what was kept back.
func (l *tunLink) settle() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if pkt := l.late.take(); pkt != nil {
		l.write(pkt)
		pkt.DecRef()
	}
}

func (l *tunLink) deliver(d stack.NetworkDispatcher, n int) {
	b := l.in.AsSlice()[virtioHeader:n]
	var proto tcpip.NetworkProtocolNumber
	switch header.IPVersion(b) {
	case header.IPv4Version:
		proto = ipv4.ProtocolNumber
	case header.IPv6Version:
		proto = header.IPv6ProtocolNumber
	default:
		return
	}
	v := l.in
	if len(b) <= small {
		v = buffer.NewViewWithData(b)
	} else {
		l.in = nil
		v.CapLength(n)
		v.TrimFront(virtioHeader)
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(v)})
	// the kernel made it, and nothing was on a wire
	pkt.RXChecksumValidated = true
	d.DeliverNetworkPacket(proto, pkt)
	pkt.DecRef()
}

// WritePackets writes each packet with one call. What the device has no room
// for is dropped, as on any link.
func (l *tunLink) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := 0
	for _, pkt := range list.AsSlice() {
		if l.late.keep(pkt) {
			n++
			continue
		}
		if before := l.late.take(); before != nil {
			if !carries(pkt, before) {
				l.write(before)
			}
			before.DecRef()
		}
		if errno := l.write(pkt); errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR && errno != unix.ENOBUFS {
			return n, &tcpip.ErrAborted{}
		}
		n++
	}
	return n, nil
}

// write does not wait. The device must not have been closed.
func (l *tunLink) write(pkt *stack.PacketBuffer) unix.Errno {
	var virtio [virtioHeader]byte
	leaveChecksum(pkt, &virtio)
	var room [8]unix.Iovec
	iov := append(room[:0], unix.Iovec{Base: &virtio[0], Len: virtioHeader})
	for _, s := range pkt.AsSlices() {
		if len(s) > 0 {
			iov = append(iov, unix.Iovec{Base: &s[0], Len: uint64(len(s))})
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(l.fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
	return errno
}

// leaveChecksum leaves the checksum of a TCP segment to who takes it: the
// sandbox's kernel, which knows that it need not look. That of a datagram over
// IPv6, too; over IPv4 it may be none.
func leaveChecksum(pkt *stack.PacketBuffer, virtio *[virtioHeader]byte) {
	b := pkt.TransportHeader().Slice()
	proto, offset := pkt.TransportProtocolNumber, header.TCPChecksumOffset
	if _, ok := tcpOf(pkt); !ok {
		if proto != header.UDPProtocolNumber || pkt.NetworkProtocolNumber != header.IPv6ProtocolNumber || len(b) < header.UDPMinimumSize {
			return
		}
		offset = udpChecksumOffset
	}
	start := len(pkt.NetworkHeader().Slice())
	ip := pkt.Network()
	binary.BigEndian.PutUint16(b[offset:], header.PseudoHeaderChecksum(proto, ip.SourceAddress(), ip.DestinationAddress(), uint16(pkt.Size()-start)))
	virtio[0] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(virtio[virtioStart:], uint16(start))
	binary.NativeEndian.PutUint16(virtio[virtioOffset:], uint16(offset))
}

// udpChecksumOffset is where a datagram has its checksum (RFC 768).
const udpChecksumOffset = 6

// The rest says what the link is.

// MTU is fixed.
func (l *tunLink) MTU() uint32 { return MTU }

// SetMTU does nothing.
func (l *tunLink) SetMTU(uint32) {}

// Capabilities are those of a device in memory.
func (l *tunLink) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload | stack.CapabilityTXChecksumOffload
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

// Wait has nothing to wait for: the loop reads.
func (l *tunLink) Wait() {}

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

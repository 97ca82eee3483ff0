package net

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// world is what is outside of the sandbox: names, hosts, and a record of every
// packet that arrives.
type world struct {
	mu      sync.Mutex
	packets []string // "tcp 9.9.9.1:443"
	names   []string // asked of the resolver
}

// addresses of the world's names.
var addresses = map[string][]string{
	"allowed.example.": {"9.9.9.1"}, "cdn.example.": {"9.9.9.2"}, "registry.example.": {"9.9.9.3"}, "api.example.": {"9.9.9.4"}, "evil.example.": {"9.9.9.4"},
	"private.example.": {"10.1.2.9"}, "meta.example.": {"169.254.169.254"}, "mixed.example.": {"9.9.9.1", "10.1.2.9"}, "loop.example.": {"127.0.0.1"},
	"host.example.": {"11.0.0.1"}, "bulk.example.": {"9.9.9.1"}, "hello.example.": {"9.9.9.1"}, "fresh.example.": {"9.9.9.1"},
}

// serveWorld serves until it is killed.
func serveWorld(dir string) error {
	w := &world{}
	cert, ca, err := authority()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o644); err != nil {
		return err
	}
	if os.Getenv("ISOLATE_NETBED_BLIND") == "" { // it costs every packet a wake-up
		sniff, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		go w.capture(sniff)
	}
	errs := make(chan error, 8)
	names, err := net.ListenPacket("udp", "11.0.0.53:53")
	if err != nil {
		return err
	}
	go func() {
		errs <- (&dns.Server{PacketConn: names, Handler: dns.HandlerFunc(w.resolve)}).ActivateAndServe()
	}()
	site := http.HandlerFunc(w.site)
	for addr, serve := range map[string]func(net.Listener) error{
		":80": func(l net.Listener) error { return http.Serve(l, site) },
		":443": func(l net.Listener) error {
			s := &http.Server{Handler: site, TLSConfig: &tls.Config{GetCertificate: cert}}
			return s.ServeTLS(l, "", "")
		},
		":7":            serveBulk,
		"11.0.0.2:9999": func(l net.Listener) error { return http.Serve(l, http.HandlerFunc(w.tell)) },
	} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go func() { errs <- serve(l) }()
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o644); err != nil {
		return err
	}
	return <-errs
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// capture notes every packet's destination.
func (w *world) capture(fd int) {
	b := make([]byte, 65536)
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if text := describe(b[:n]); text != "" {
			w.mu.Lock()
			w.packets = append(w.packets, text)
			w.mu.Unlock()
		}
	}
}

// describe says what a packet is and where it goes to; "" for what kernels tell
// each other about a link: ARP, ICMPv6.
func describe(b []byte) string {
	var head int
	var proto byte
	var to net.IP
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		head, proto, to = int(b[0]&15)*4, b[9], net.IP(b[16:20])
	case len(b) >= 40 && b[0]>>4 == 6:
		head, proto, to = 40, b[6], net.IP(b[24:40])
	}
	kernel := to == nil || to.To4() == nil && (proto == unix.IPPROTO_ICMPV6 || proto == unix.IPPROTO_HOPOPTS)
	switch name := map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp"}[proto]; {
	case kernel:
		return ""
	case name == "" || len(b) < head+4:
		return fmt.Sprintf("proto%d %s", proto, to)
	default:
		return fmt.Sprintf("%s %s:%d", name, to, int(b[head+2])<<8|int(b[head+3]))
	}
}

func (w *world) resolve(rw dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	name := strings.ToLower(q.Question[0].Name)
	w.mu.Lock()
	w.names = append(w.names, name)
	w.mu.Unlock()
	list, ok := addresses[name]
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	ttl := uint32(1)
	if name == "fresh.example." { // which nobody may keep
		ttl = 0
	}
	if q.Question[0].Qtype == dns.TypeA {
		for _, a := range list {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: net.ParseIP(a)})
		}
	}
	_ = rw.WriteMsg(m)
}

// seen is what arrived in the world.
type seen struct{ Packets, Names []string }

// tell tells the test what arrived, and forgets it.
func (w *world) tell(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := seen{Names: w.names}
	for _, p := range w.packets {
		if !strings.HasPrefix(p, "tcp 11.0.0.2:") { // this conversation
			s.Packets = append(s.Packets, p)
		}
	}
	w.packets, w.names = nil, nil
	_ = json.NewEncoder(rw).Encode(s)
}

// site is every host of the world.
func (w *world) site(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/bytes":
		n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		rw.Header().Set("Content-Length", fmt.Sprint(n))
		_, _ = io.CopyN(rw, zeros{}, n)
	case r.URL.Path == "/slow":
		for r.Context().Err() == nil {
			if _, err := rw.Write(make([]byte, 1000)); err != nil {
				return
			}
			rw.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	case r.URL.Path == "/header":
		fmt.Fprint(rw, r.Header.Get("Authorization"))
	case r.URL.Path == "/redirect":
		http.Redirect(rw, r, r.URL.Query().Get("to"), http.StatusFound)
	case serveRegistry(rw, r):
	default:
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %s", r.Host, r.URL.Path, body)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// serveBulk sends and receives as fast as it can: the first byte says which.
func serveBulk(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			var way [1]byte
			if _, err := io.ReadFull(c, way[:]); err != nil {
				return
			}
			switch way[0] {
			case 'd':
				b := make([]byte, 256<<10)
				for {
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			case 'u':
				n, _ := io.Copy(io.Discard, c)
				fmt.Fprintf(c, "%d\n", n)
			case 'e', 22: // a TLS hello
				_, _ = io.Copy(c, c)
			case 'b':
				fd, err := blocking(c)
				if err != nil {
					return
				}
				f := os.NewFile(uintptr(fd), "connection")
				defer f.Close()
				p := exec.Command("/proc/self/exe")
				p.Env = []string{"ISOLATE_NETCLIENT=answer - 0"}
				p.ExtraFiles = []*os.File{f}
				_ = p.Run()
			}
		}()
	}
}

// authority makes certificates for whoever is asked for.
func authority() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "world"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	get := func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{h.ServerName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, AuthorityKeyId: root.SubjectKeyId}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
	}
	return get, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

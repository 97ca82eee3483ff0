package netd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

var timeNow = time.Now

// Authority signs certificates for one sandbox. Its key is in this process's
// memory and nowhere else.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// leafKey is the key of all leaves: they are for one program, and making a
	// key for each would only cost time.
	leafKey *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[egress.Name]*tls.Certificate
}

// Life of certificates: a sandbox does not live longer, and clocks differ.
const (
	leafBefore = 5 * time.Minute
	leafAfter  = 24 * time.Hour
	maxLeaves  = 256
)

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	a := &Authority{leaves: map[egress.Name]*tls.Certificate{}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "isolate sandbox"},
		NotBefore: timeNow().Add(-leafBefore), NotAfter: timeNow().Add(30 * leafAfter),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// PEM is the authority's certificate.
func (a *Authority) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// leaf is a certificate for one name and no other.
func (a *Authority) leaf(n egress.Name) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[n]; c != nil && timeNow().Before(c.Leaf.NotAfter.Add(-time.Hour)) {
		return c, nil
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{string(n)},
		NotBefore: timeNow().Add(-leafBefore), NotAfter: timeNow().Add(leafAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          a.cert.SubjectKeyId[:8:8], AuthorityKeyId: a.cert.SubjectKeyId,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		a.leaves = map[egress.Name]*tls.Certificate{}
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leafKey, Leaf: parsed}
	a.leaves[n] = c
	return c, nil
}

// intercept ends TLS and judges every request in it.
func (fl *flow) intercept(c conn) {
	a := fl.network.options.Authority
	if a == nil { // Set has refused such a policy
		fl.d.Verdict, fl.d.Reason = egress.Refuse, egress.ReasonProtoNotAllowed
		fl.refused()
		return
	}
	if p := fl.f.Peek; p != nil && strings.HasSuffix(p.Server, ".") {
		fl.d.Verdict, fl.d.Reason, fl.d.Hint = egress.Refuse, egress.ReasonNameInvalid, "ask for the name without the dot at its end, where TLS is looked into"
		fl.refused()
		_, _ = c.Write(alert) // no handshake that crypto/tls would take can follow
		return
	}
	t := tls.Server(c, &tls.Config{NextProtos: []string{protocolHTTP2, protocolHTTP1}, MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.leaf(fl.f.Host.Name) }})
	_ = t.SetDeadline(time.Now().Add(fl.network.times.Head))
	if err := t.Handshake(); err != nil {
		return // it does not trust us; nothing went out
	}
	_ = t.SetDeadline(time.Time{})
	if t.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		fl.serveHTTP2(t)
	} else {
		fl.serveHTTP(&ended{t, c}, decrypted)
	}
	_ = t.Close()
}

// ended is a connection whose TLS ends here.
type ended struct {
	*tls.Conn
	under conn
}

// Abort resets the connection below.
func (e *ended) Abort() { e.under.Abort() }

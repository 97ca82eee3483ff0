package netd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
)

// Sink takes events.
type Sink interface {
	// Durable takes an event in its order. wait, which is called at most once,
	// returns when it is durable; its error means that what the event announces
	// must not happen.
	Durable(egress.Event) (wait func() error)
	// Note does not wait.
	Note(egress.Event)
}

// Upstream is the way out.
type Upstream interface {
	// Lookup finds all addresses of a name. An error is one of the network.
	Lookup(ctx context.Context, n egress.Name) (Answer, error)
	// Dial connects to an address that was judged; network is "tcp" or "udp".
	// begins is called before anything is sent, and always if it connects. errOwn
	// means that the address turned out to be one of this machine: then it is not.
	Dial(ctx context.Context, network string, to netip.AddrPort, begins func()) (net.Conn, error)
	// Loopback connects to a TCP port of this machine that was granted by itself.
	Loopback(ctx context.Context, port uint16) (net.Conn, error)
}

// errOwn means that an address is one of this machine.
var errOwn = errors.New("the address is one of this machine")

// Options of a Network. Link, Upstream and Sink are required.
type Options struct {
	Link     stack.LinkEndpoint
	Upstream Upstream
	Sink     Sink
	Floor    egress.Floor
	// Roots verify the upstream side of intercepted TLS; nil means the system's.
	Roots *x509.CertPool
	// Authority signs for intercepted TLS; nil means that nothing is intercepted.
	Authority *Authority
	Secrets   map[string]control.Secret
	// IPv6 says whether the sandbox has IPv6 beside IPv4.
	IPv6 bool
	// Times are the patience with the program and with the network. Zero
	// means the defaults.
	Times Times
}

// Times are bounds on waiting.
type Times struct {
	Hello time.Duration // for the first bytes; 5 s
	Head  time.Duration // for the head of a request; 10 s
	Dial  time.Duration // for a connection; 10 s
	Idle  time.Duration // without a byte either way; 15 min
}

func (t Times) withDefaults() Times {
	for _, x := range []struct {
		field *time.Duration
		value time.Duration
	}{{&t.Hello, 5 * time.Second}, {&t.Head, 10 * time.Second}, {&t.Dial, 10 * time.Second}, {&t.Idle, 15 * time.Minute}} {
		if *x.field == 0 {
			*x.field = x.value
		}
	}
	return t
}

// Network is the network of one sandbox.
type Network struct {
	options  Options
	times    Times
	judge    *egress.Judge
	names    *nameTable
	bound    *bindings
	answers  *answerTable
	events   *events
	rate     *bucket
	stack    *stack.Stack
	loop     *loop
	gate     *gate
	flows    atomic.Uint64 // numbers them
	ctx      context.Context
	cancel   context.CancelFunc
	desk     chan struct{} // rights to a connection to the resolver or the proxy
	requests chan struct{} // rights to a request of HTTP/2
	asking   chan struct{} // rights to a UDP socket that asks the resolver
	open     atomic.Int64  // flows that have an opening and no closing event yet
	work     sync.WaitGroup

	finishing sync.Once
}

// New makes a network that denies everything until Set.
func New(o Options) (*Network, error) {
	n := &Network{options: o, times: o.Times.withDefaults(), judge: egress.NewJudge(0, nil), names: newNameTable(), bound: newBindings(), answers: newAnswerTable(), events: newEvents(o.Sink), rate: newBucket(256, 1024), desk: make(chan struct{}, maxDesk), asking: make(chan struct{}, maxAsking), requests: make(chan struct{}, maxRequests)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	var err error
	if n.loop, err = newLoop(); err != nil {
		n.cancel()
		return nil, err
	}
	err = n.newStack(o.Link)
	device, _ := o.Link.(source)
	if err = errors.Join(err, n.loop.start(device)); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Set puts a policy in force whose clocks started at granted. The change is
// durable before it is.
func (n *Network) Set(p egress.Policy, number uint64, granted time.Time) error {
	g, err := egress.Compile(p, n.options.Floor, number, granted)
	if err != nil {
		return err
	}
	if g.Intercepts() && n.options.Authority == nil {
		return errors.New("the policy intercepts, but the sandbox was made without a certificate authority")
	}
	for _, r := range p.Rules {
		for _, secret := range r.Inject {
			if _, known := n.options.Secrets[secret.Variable]; !known {
				return fmt.Errorf("the policy injects $%s, which the sandbox was made without", secret.Variable)
			}
		}
	}
	kind := egress.EventPolicy
	if number == 1 {
		kind = egress.EventStart
	}
	if err := n.events.durable(egress.Event{Type: kind, Gen: number, Mode: p.Mode.String()})(); err != nil {
		return err
	}
	n.judge.Set(g)
	return nil
}

// What speaks to the resolver and the proxy at once is bounded here; flows are
// by the judge. A UDP socket is forgotten soon after its last question.
const (
	maxDesk   = 512
	maxAsking = 2048
)

// admit gives a right, if one is free.
func admit(desk chan struct{}) (leave func(), ok bool) {
	select {
	case desk <- struct{}{}:
		return func() { <-desk }, true
	default:
		return nil, false
	}
}

// finishWait bounds how long flows that were cut may take to notice.
const finishWait = time.Second

// finish cuts every flow and reports what is to be reported.
func (n *Network) finish() {
	n.finishing.Do(func() {
		n.judge.Stop()
		n.cancel()
		for end := time.Now().Add(finishWait); n.open.Load() > 0 && time.Now().Before(end); {
			time.Sleep(200 * time.Microsecond)
		}
		n.events.close()
	})
}

// Close is finish, and ends the stack.
func (n *Network) Close() {
	n.finish()
	n.loop.close()
	n.stack.Close()
	n.work.Wait()
}

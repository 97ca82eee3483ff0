package isolate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
	"github.com/isolate-run/isolate/plan"
)

// The vocabulary of package egress, for callers of this package.
type (
	// Net is what a program may reach; see package egress.
	Net = egress.Policy
	// NetRule allows a name or a range.
	NetRule = egress.Rule
	// NetSummary is what happened on a sandbox's network.
	NetSummary = egress.Summary
)

// helperName is the program that holds the network of a sandbox.
const helperName = "isolate-netd"

// netHelper is the path of that program; "" if there is none.
func netHelper(given string) string {
	if given != "" {
		return given
	}
	return Helper(helperName)
}

// Helper is the path of a program that belongs to isolate, by its name; "" if it
// is not there. It stands beside this executable or in ../libexec/isolate: never
// in PATH, which others may have written.
func Helper(name string) string {
	self := ownFile()
	if self == "" {
		return ""
	}
	dir := filepath.Dir(self)
	for _, p := range []string{filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), "libexec", "isolate", name)} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// ownFile is the file that our code was mapped from. /proc/self/exe may be a
// sealed copy of a loader (docs/adr/0008-light-executable.md).
func ownFile() string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	at := uint64(reflect.ValueOf(ownFile).Pointer())
	for line := range strings.Lines(string(maps)) {
		var low, high, offset uint64
		var perms, device, inode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s", &low, &high, &perms, &offset, &device, &inode); n < 6 || at < low || at >= high {
			continue
		}
		if i := strings.IndexByte(line, '/'); i >= 0 {
			return strings.TrimSuffix(line[i:], "\n")
		}
	}
	return ""
}

// networkProblem says why no sandbox can have a network; without a What it can.
func networkProblem(helper string) plan.Problem {
	if err := container.HasTUN(); err != nil {
		return plan.Problem{What: "cannot give a sandbox a network", Rule: err.Error(),
			Remedy: "load the module tun, and let users open the node as most distributions do: chmod 0666 /dev/net/tun"}
	}
	if netHelper(helper) == "" {
		return plan.Problem{What: "cannot give a sandbox a network", Rule: "there is no " + helperName + " beside this program",
			Remedy: "install it there (make build makes it), or name one in Options.NetHelper"}
	}
	return plan.Problem{}
}

// startNetwork starts the process behind the sandbox's device. Until a policy is
// set it denies everything.
func (b *box) startNetwork(ctx context.Context) error {
	device := b.sandbox.Device
	if device == nil {
		return nil
	}
	b.sandbox.Device = nil
	c := control.Machine()
	c.Intercept, c.IPv6Inside = b.plan.Intercepts(), b.plan.HasIPv6()
	for _, r := range b.plan.NetPolicy.Rules {
		for _, s := range r.Inject {
			if err := addSecret(&c, s.Variable); err != nil {
				device.Close()
				return err
			}
		}
	}
	if c.Intercept {
		if c.Roots = control.Roots(); c.Roots == nil {
			device.Close()
			return errors.New("cannot intercept TLS: this machine has no bundle of trusted certificates; install ca-certificates")
		}
	}
	spare, err := duplicate(device)
	if err != nil {
		device.Close()
		return err
	}
	p, err := control.Start(ctx, netHelper(b.runtime.options.NetHelper), device, c, (*netRecorder)(b))
	if err != nil {
		spare.Close()
		return err
	}
	b.network = p
	if err := b.trust(c, p.Ready.CA); err != nil {
		spare.Close()
		return err
	}
	b.mourning.Go(func() { b.mourn(spare) })
	return nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the network device: %w", err)
	}
	return os.NewFile(uintptr(fd), "network device"), nil
}

// mourn waits for the end of the network process. If it died, another one, which
// never allows anything, ends what the program still has open: a connection
// that only waits would wait for ever.
func (b *box) mourn(device *os.File) {
	defer device.Close()
	<-b.network.Done()
	if !b.network.Died() {
		return
	}
	var c control.Config
	open, _ := b.sandbox.Connections() // the sandbox may be at its end, too
	for _, x := range open {
		c.Mourn = append(c.Mourn, control.Connection{Local: x[0], Remote: x[1]})
	}
	again, err := duplicate(device)
	if err != nil {
		return
	}
	p, err := control.Start(context.Background(), netHelper(b.runtime.options.NetHelper), again, c, nil)
	if err != nil {
		return // what is open stays silent; nothing gets out
	}
	defer p.Stop()
	<-b.over
}

// addSecret reads a secret from our environment and makes what stands for it.
func addSecret(c *control.Config, variable string) error {
	value, set := os.LookupEnv(variable)
	refuse := func(rule, remedy string) error {
		return &plan.Refusal{Problems: []plan.Problem{{What: "cannot inject $" + variable, Rule: rule, Remedy: remedy}}}
	}
	switch {
	case !set || value == "":
		return refuse("it is not set", "export it where isolate, or its server, is started")
	case strings.TrimSpace(value) != value || strings.ContainsFunc(value, unicode.IsControl):
		return refuse("no header can hold white space around it or a control character", "look for the end of a line in it")
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	if c.Secrets == nil {
		c.Secrets = map[string]control.Secret{}
	}
	c.Secrets[variable] = control.Secret{Value: value, Placeholder: "isolate-placeholder-" + hex.EncodeToString(random[:])}
	return nil
}

// openNetwork puts the plan's rules in force; their clocks start now.
func (b *box) openNetwork(ctx context.Context) error {
	if b.network == nil {
		return nil
	}
	return b.setNet(ctx, *b.plan.NetPolicy)
}

// netSummary is what happened on the network so far; nil without one.
func (b *box) netSummary() *NetSummary {
	if b.network == nil {
		return nil
	}
	s := b.network.Summary()
	return &s
}

// endNetwork ends every flow and the process.
func (b *box) endNetwork() {
	if b.network == nil {
		return
	}
	b.network.Stop()
	b.overOnce.Do(func() { close(b.over) })
	b.mourning.Wait()
}

// routes are what the sandbox's kernel sends to the network process.
func routes(pl plan.Plan) []netip.Prefix {
	if !pl.HasNetwork() {
		return nil
	}
	all := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	if pl.HasIPv6() {
		all = append(all, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	return all
}

// netRecorder records events of the network in the log of the box.
type netRecorder box

// Record makes events durable.
func (r *netRecorder) Record(e []egress.Event) error {
	b := (*box)(r)
	b.runtime.counters.flows(e)
	return b.record.append(netEvents(e)...)
}

// Later gives events their place.
func (r *netRecorder) Later(e []egress.Event) error {
	b := (*box)(r)
	b.runtime.counters.flows(e)
	return b.record.later(netEvents(e)...)
}

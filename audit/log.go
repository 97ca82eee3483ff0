package audit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"
)

// Options of Open.
type Options struct {
	// Key signs; LoadKey gives one. Required unless Signer and Secret are set.
	Key *Key
	// Signer signs in place of Key. Nil means Key.
	Signer Signer
	// Secret salts the digests of payloads; 32 random bytes. Nil means Key's.
	Secret []byte
	// Payload is what is kept of arguments. The zero value keeps digests.
	Payload PayloadMode
	// MaxPayload is how many bytes of a payload are kept with PayloadText.
	// Zero means DefaultMaxPayload; at most 32768.
	MaxPayload int
	// Redact are parts of names of fields whose values are not kept, besides
	// DefaultRedact. Case does not matter.
	Redact []string
	// Anchor remembers checkpoints elsewhere. Nil means that nothing does.
	Anchor Anchor
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time

	syncs syncer // nil means fdatasync
}

// Log is a directory of logs that is written to. Several processes may have
// one directory open: each run is written by one, and the host log by one at a
// time. It is safe for concurrent use.
type Log struct {
	dir      string
	signer   Signer
	hosts    note.Verifiers
	payloads payloads
	anchor   Anchor
	now      func() time.Time
	opened   time.Time
	syncs    syncer

	group *group // of the host log
	host  logFile

	mu     sync.Mutex // of what follows, and of signer
	latest []byte     // the host log's last checkpoint
	runs   sync.WaitGroup

	anchoring sync.Mutex
	anchored  []byte // what the anchor was given last
	closed    bool
}

// Names in the directory.
const (
	hostLog     = "host.log"
	hostHashes  = "host.hashes"
	hostKey     = "host.key"
	openDir     = "open"
	runsDir     = "runs"
	logSuffix   = ".log"
	originStart = "isolate.audit/"
)

// Keeps tells whether name is one of those in a directory of logs, or of a key.
func Keeps(name string) bool {
	return slices.Contains([]string{hostLog, hostHashes, hostKey, openDir, runsDir}, name)
}

// ErrClosed is the error of a log or run that was closed.
var ErrClosed = errors.New("cannot write audit log: it is closed")

// What a reader of logs may have named wrongly.
var (
	ErrNoRun    = errors.New("it is not the id of a run")
	ErrNoRecord = errors.New("there is no such record")
	// ErrNotPublicKey is a key to believe that is none.
	ErrNotPublicKey = errors.New("it is not a public key")
)

// Open opens the logs in directory dir for writing, and makes the directory if
// it is not there. It seals runs whose process has died. It refuses a directory
// whose last checkpoint the key did not sign, or that is not a continuation of
// what the anchor remembers.
func Open(dir string, o Options) (*Log, error) {
	l, err := newLog(dir, o)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, openDir), filepath.Join(dir, runsDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make audit directory: %w", err)
		}
	}
	if err := l.openHost(); err != nil {
		return nil, err
	}
	err = l.checkAnchor()
	if err == nil {
		err = l.recover()
	}
	if err != nil {
		l.host.f.Close()
		return nil, err
	}
	return l, nil
}

func newLog(dir string, o Options) (*Log, error) {
	if o.Signer == nil && o.Key != nil {
		o.Signer = o.Key
	}
	if o.Secret == nil && o.Key != nil {
		o.Secret = o.Key.salt
	}
	switch {
	case o.Signer == nil:
		return nil, errors.New("cannot open audit log: no key signs it; LoadKey gives one")
	case len(o.Secret) == 0:
		return nil, errors.New("cannot open audit log: Secret is needed to salt digests")
	case o.MaxPayload < 0 || o.MaxPayload > maxPayload:
		return nil, fmt.Errorf("cannot open audit log: MaxPayload is %d, at most %d", o.MaxPayload, maxPayload)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.syncs == nil {
		o.syncs = fdatasync
	}
	v, err := note.NewVerifier(o.Signer.VerifierKey())
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the audit log: %w", err)
	}
	redact := append([]string(nil), DefaultRedact...)
	for _, r := range o.Redact {
		redact = append(redact, strings.ToLower(r))
	}
	l := &Log{
		dir: dir, signer: o.Signer, hosts: note.VerifierList(v), anchor: o.Anchor, now: o.Now, opened: time.Now(), syncs: o.syncs,
		payloads: payloads{secret: o.Secret, mode: o.Payload, limit: o.MaxPayload, redact: redact},
	}
	l.group = newGroup(l.writeHost)
	return l, nil
}

// entry gives an event its time.
func (l *Log) entry(e Event) entry {
	return entry{event: e, time: l.now(), mono: time.Since(l.opened)}
}

// openHost opens the host log, or makes it.
func (l *Log) openHost() error {
	name := filepath.Join(l.dir, hostLog)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open audit log: %w", err)
	}
	l.host = logFile{f: f, name: name, syncs: l.syncs}
	unlock, err := l.lockHost()
	if err == nil {
		err = l.loadHost()
		unlock()
	}
	if err != nil {
		f.Close()
	}
	return err
}

// lockHost takes the host log for this process.
func (l *Log) lockHost() (unlock func(), err error) {
	fd := int(l.host.f.Fd())
	for {
		if err = unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, l.host.failed("lock", err)
	}
	return func() { _ = unix.Flock(fd, unix.LOCK_UN) }, nil
}

// loadHost reads the state of the locked host log, or creates its first record.
func (l *Log) loadHost() error {
	st, err := l.host.f.Stat()
	if err != nil {
		return l.host.failed("look at", err)
	}
	if st.Size() == 0 {
		return l.createHost()
	}
	return l.readHost(st.Size())
}

func (l *Log) createHost() error {
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	l.host.origin = originStart + hex.EncodeToString(id)
	key := filepath.Join(l.dir, hostKey)
	if err := os.WriteFile(key, []byte(l.signer.VerifierKey()+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot write audit key: %w", err)
	}
	_ = os.Remove(filepath.Join(l.dir, hostHashes))
	if err := l.writeLocked([]entry{l.entry(LogCreated{Origin: l.host.origin, Key: l.signer.VerifierKey()})}); err != nil {
		return err
	}
	if err := syncDir(l.dir); err != nil {
		return fmt.Errorf("cannot make audit directory durable: %w", err)
	}
	return nil
}

// writeHost is the group's write.
func (l *Log) writeHost(batch []entry) error {
	unlock, err := l.lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.catchUp(); err != nil {
		return err
	}
	return l.writeLocked(batch)
}

// writeLocked writes to the locked host log and to the file of its hashes.
func (l *Log) writeLocked(batch []entry) error {
	before := l.host.tree
	_, msg, err := l.host.write(batch, l.key())
	if err != nil {
		return err
	}
	l.setLatest(msg)
	l.storeHashes(before.size)
	return nil
}

func (l *Log) setLatest(msg []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = msg
}

// Checkpoint is the last signed checkpoint of the host log: what somebody else
// should remember.
func (l *Log) Checkpoint() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// key is the host key in force.
func (l *Log) key() Signer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signer
}

// VerifierKey is the public half of the host key.
func (l *Log) VerifierKey() string { return l.key().VerifierKey() }

// Refused records a run that never was. It returns when that is durable.
func (l *Log) Refused(e RunRefused) error { return l.group.do([]entry{l.entry(e)}) }

// Close waits for the runs that are open and closes the host log.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.runs.Wait()
	return errors.Join(l.group.finish(ErrClosed, nil), l.host.f.Close())
}

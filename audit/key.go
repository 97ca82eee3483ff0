package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Signer vouches for the host log and for the keys of runs: a Key, or what
// stands for one in an agent, a TPM or a key service.
type Signer interface {
	note.Signer
	// VerifierKey is the public half, in the form of package note.
	VerifierKey() string
}

// Key is an Ed25519 key in memory.
type Key struct {
	name    string
	hash    uint32
	vkey    string
	private ed25519.PrivateKey
	// salt makes digests of short values useless to who has the log only.
	salt []byte
}

var _ Signer = (*Key)(nil)

// newKey makes a key. Names have neither spaces nor '+'.
func newKey(name string) (*Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make key: %w", err)
	}
	return keyFrom(name, private)
}

func keyFrom(name string, private ed25519.PrivateKey) (*Key, error) {
	vkey, err := note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	return &Key{name: name, hash: v.KeyHash(), vkey: vkey, private: private}, nil
}

// Name, KeyHash and Sign are those of note.Signer.
func (k *Key) Name() string    { return k.name }
func (k *Key) KeyHash() uint32 { return k.hash }

// Sign fails when the key has been destroyed.
func (k *Key) Sign(msg []byte) ([]byte, error) {
	if k.private == nil {
		return nil, errors.New("cannot sign: the key of this run is destroyed")
	}
	return ed25519.Sign(k.private, msg), nil
}

// VerifierKey is what others need to check signatures.
func (k *Key) VerifierKey() string { return k.vkey }

// destroy makes sure that nothing more is signed.
func (k *Key) destroy() {
	clear(k.private)
	k.private = nil
}

// keyID is how a key is named to people: its name and hash.
func keyID(s interface {
	Name() string
	KeyHash() uint32
}) string {
	return fmt.Sprintf("%s+%08x", s.Name(), s.KeyHash())
}

const (
	keyFile   = "host.key"
	saltBytes = 32
	// keyIntro begins a key file; two lines follow, the private key as base64
	// of its seed and the salt as hexadecimal digits.
	keyIntro = "isolate host key "
)

// LoadKey reads the host key from directory dir, which must be the caller's
// own and outside of everything that a sandbox is shown. It makes one, mode
// 0600 in a directory of mode 0700, if there is none.
func LoadKey(dir string) (*Key, error) {
	k, err := readKey(filepath.Join(dir, keyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the host key, %q: %w; %s", dir, reasonOf(err), otherKeys)
	}
	if err := createKey(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make a host key in %q: %w; %s", dir, reasonOf(err), otherKeys)
	}
	return readKey(filepath.Join(dir, keyFile))
}

// ReadKey is LoadKey, but where there is no key it fails with fs.ErrNotExist.
func ReadKey(dir string) (*Key, error) { return readKey(filepath.Join(dir, keyFile)) }

// createKey writes a key file that is complete as soon as it is there.
func createKey(dir string) error {
	random := make([]byte, 4+ed25519.SeedSize+saltBytes)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	name, seed, salt := random[:4], random[4:4+ed25519.SeedSize], random[4+ed25519.SeedSize:]
	text := fmt.Sprintf("%sisolate-host-%x\n%s\n%x\n", keyIntro, name, base64.StdEncoding.EncodeToString(seed), salt)
	f, err := os.CreateTemp(dir, ".key-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// a link, not a rename: who comes second must not take the first one's place
	if err := os.Link(f.Name(), filepath.Join(dir, keyFile)); err != nil {
		return err
	}
	return syncDir(dir)
}

// otherKeys is what helps where the place of the key is of no use.
const otherKeys = "name a directory of your own with --audit-key"

// reasonOf is an error of a file without its path, which is told already.
func reasonOf(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func readKey(file string) (*Key, error) {
	f, err := openFile(file)
	if errors.Is(err, errNoFile) {
		return nil, fmt.Errorf("cannot use host key %q: %w; %s", file, errNoFile, otherKeys)
	}
	if err != nil {
		return nil, unreadableKey(file, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, unreadableKey(file, err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("cannot use host key %q: others may read it (mode %v); chmod 600 it, or make a new one if they have", file, st.Mode())
	}
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if err != nil && err != io.EOF {
		return nil, unreadableKey(file, err)
	}
	k, err := parseKey(b[:n])
	if err != nil {
		return nil, fmt.Errorf("cannot use host key %q: %w; put back a copy of it, or move it away to begin a new log with a new key", file, err)
	}
	return k, nil
}

// unreadableKey is the error of a key that may be a good one.
func unreadableKey(file string, err error) error {
	return fmt.Errorf("cannot read host key %q, which signs what is recorded: %w; it must be yours, with mode 600, in a directory that you can enter; for another key %s", file, reasonOf(err), otherKeys)
}

func parseKey(b []byte) (*Key, error) {
	lines := bytes.Split(b, []byte("\n"))
	if len(lines) != 4 || len(lines[3]) != 0 || !bytes.HasPrefix(lines[0], []byte(keyIntro)) {
		return nil, errors.New("it is not a key file")
	}
	seed, err := base64.StdEncoding.DecodeString(string(lines[1]))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("it holds no key")
	}
	salt, err := hex.DecodeString(string(lines[2]))
	if err != nil || len(salt) != saltBytes {
		return nil, errors.New("it holds no salt")
	}
	k, err := keyFrom(strings.TrimPrefix(string(lines[0]), keyIntro), ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return nil, err
	}
	k.salt = salt
	return k, nil
}

// certIntro begins the note by which the host key vouches for a run's key.
const certIntro = "isolate run key"

// certify makes that note.
func certify(host Signer, run *Key) (string, error) {
	msg, err := note.Sign(&note.Note{Text: certIntro + "\n" + run.name + "\n" + run.vkey + "\n"}, host)
	if err != nil {
		return "", fmt.Errorf("cannot certify the key of a run: %w", err)
	}
	return string(msg), nil
}

// openCert gives the key that a certificate vouches for.
func openCert(cert, origin string, hosts note.Verifiers) (note.Verifier, error) {
	if len(cert) > maxNote {
		return nil, errNoCert
	}
	if _, err := openNote([]byte(cert), hosts); err != nil {
		return nil, err
	}
	named, v, _, err := splitCert(cert)
	if err != nil {
		return nil, err
	}
	if named != origin || v.Name() != origin {
		return nil, fmt.Errorf("%w: the certificate is that of %q", errUnknownKey, named)
	}
	return v, nil
}

var errNoCert = errors.New("it is no certificate")

// splitCert reads a certificate without believing it.
func splitCert(cert string) (origin string, v note.Verifier, key string, err error) {
	lines := strings.Split(cert, "\n")
	if len(lines) < 5 || lines[0] != certIntro || lines[3] != "" {
		return "", nil, "", errNoCert
	}
	if v, err = newVerifier(lines[2]); err != nil {
		return "", nil, "", fmt.Errorf("it holds no key: %w", err)
	}
	return lines[1], v, lines[2], nil
}

// verifier is a note.Verifier that remembers its text.
type verifier struct {
	note.Verifier
	text string
}

func newVerifier(text string) (note.Verifier, error) {
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, err
	}
	return verifier{v, text}, nil
}

// keyText is the text of a verifier that newVerifier made.
func keyText(v note.Verifier) string {
	if v, ok := v.(verifier); ok {
		return v.text
	}
	return ""
}

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/plan"
)

// readAttest reads where the attestation of the run goes; "" is nowhere.
func (r *reader) readAttest() {
	text, given := r.flags.one("attest", &r.problems)
	if !given {
		return
	}
	if r.request.audit.dir == "" {
		r.add(attestAlone())
	}
	if r.request.tty {
		r.add(attestTerminal())
	}
	file, err := notEmpty(text)
	if err == nil {
		file, err = r.abs(text)
	}
	if err == nil {
		err = replaceable(file)
	}
	if err != nil {
		r.wrong("attest", err)
		return
	}
	what := r.needs(file)
	if r.request.meta.file != "" && isSame(file, r.request.meta.file) {
		what = "the file of --meta"
	}
	if what != "" {
		r.add(writtenOver("the attestation", text, what))
		return
	}
	r.request.attest = file
}

// clearAttestation removes that of an earlier run.
func (r request) clearAttestation() error {
	if r.attest == "" {
		return nil
	}
	if err := os.Remove(r.attest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// attested writes the attestation of a run that has ended.
func (r request) attested(l *audit.Log, o outcome) outcome {
	if r.attest == "" || o.result == nil {
		return o
	}
	fail := func(p ...plan.Problem) outcome {
		o.problems, o.code = append(o.problems, p...), exitRefused
		return o
	}
	if l == nil || o.result.Audit == nil {
		return fail(attestAlone())
	}
	b, err := l.Attest(o.result.Audit.Run, r.executable(*o.result))
	if err != nil {
		return fail(problemsOf(err)...)
	}
	if err := writeWhole(r.attest, append(b, '\n')); err != nil {
		return fail(attestUnwritten(r.attest, err))
	}
	return o
}

// executable is the program's file with its digest, where it is known which it
// is: one that was copied in, or one of the host's own directories.
func (r request) executable(res isolate.Result) *audit.Resource {
	name := r.cmd.Args[0]
	if strings.Contains(name, "/") && !path.IsAbs(name) || strings.HasPrefix(name, "/workspace/") {
		rel := path.Join(strings.TrimPrefix(r.cmd.Dir, "/workspace"), name)
		rel = strings.TrimPrefix(strings.TrimPrefix(path.Clean("/"+rel), "/workspace"), "/")
		if res.In != nil {
			for _, f := range res.In.Files {
				if f.Path == rel && f.SHA256 != "" {
					return &audit.Resource{Name: "/workspace/" + rel, Digest: map[string]string{"sha256": f.SHA256}}
				}
			}
		}
		return nil
	}
	if r.policy.Rootfs != "" || len(r.policy.ReadOnly) > 0 || r.policy.Env["PATH"] != "" || r.cmd.Env["PATH"] != "" {
		return nil
	}
	places := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} // PATH inside
	if path.IsAbs(name) {
		places = []string{""}
	}
	for _, dir := range places {
		file := filepath.Join(dir, name)
		if sum, err := digestOf(file); err == nil {
			return &audit.Resource{Name: file, Digest: map[string]string{"sha256": sum}}
		}
	}
	return nil
}

// digestOf is the SHA-256 of an executable file, in hex.
func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return "", errNotAFile
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

//go:build linux && !(cgo && seccomp)

package seccompprofile

import "errors"

var errNoLibrary = errors.New(`this program was built without libseccomp; build it with cgo and -tags seccomp`)

func resolve(table) (map[string]int, error) { return nil, errNoLibrary }

func assemble(table, map[string]int) ([]byte, error) { return nil, errNoLibrary }

package host

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/user"
)

// Identity says whose kernel user id a sandboxed program has.
type Identity string

// The identities, as in the result of a run.
const (
	// SingleID means that the program has the user's own id.
	SingleID Identity = "single-id"
	// Dropped means that the user is root, and the program has an id that owns nothing.
	Dropped Identity = "dropped"
)

// minRange is how many subordinate ids are of use: one for the program and
// the usual system ids, in whole 65536 as every distribution gives them out.
const minRange = 65536

// userName is the name of the user; empty if /etc/passwd has none.
func (s *sight) userName() string {
	if s.user == "" {
		us, err := user.ParsePasswdFileFilter(s.o.real("/etc/passwd"), func(u user.User) bool { return u.Uid == s.o.UID })
		if err == nil && len(us) > 0 {
			s.user = us[0].Name
		}
	}
	return s.user
}

// loadMapping finds the user's subordinate ids and the programs to map them.
func (s *sight) loadMapping() {
	var m AskMapping
	for _, f := range []struct {
		path string
		to   *Range
	}{{"/etc/subuid", &m.UIDs}, {"/etc/subgid", &m.GIDs}} {
		if *f.to = s.subordinate(f.path); f.to.Count < minRange {
			s.mapLack = fmt.Sprintf("%s gives %s no range of %d ids", f.path, s.who(), minRange)
			return
		}
	}
	for _, p := range []struct {
		name string
		to   *string
	}{{"newuidmap", &m.NewUIDMap}, {"newgidmap", &m.NewGIDMap}} {
		if *p.to = s.o.lookPath(p.name); *p.to == "" {
			s.mapLack = p.name + " is not in $PATH"
			return
		}
	}
	s.mapping = &m
}

func (s *sight) who() string {
	if n := s.userName(); n != "" {
		return n
	}
	return "user " + strconv.Itoa(s.o.UID)
}

// subordinate is the first range of the user in a file of subuid(5), which
// names users by name or number.
func (s *sight) subordinate(file string) Range {
	name := s.userName()
	ids, err := user.ParseSubIDFileFilter(s.o.real(file), func(e user.SubID) bool {
		return (e.Name == name && name != "") || e.Name == strconv.Itoa(s.o.UID)
	})
	if err != nil || len(ids) == 0 {
		return Range{}
	}
	return Range{First: ids[0].SubID, Count: ids[0].Count}
}

// lookPath finds a program in $PATH below Root.
func (o Options) lookPath(name string) string {
	for dir := range strings.SplitSeq(o.Getenv("PATH"), ":") {
		if !path.IsAbs(dir) {
			continue
		}
		if p := path.Join(dir, name); o.exists(p) {
			return p
		}
	}
	return ""
}

// A range that could be used is found, but isolate does not use one yet
// (docs/adr/0004-single-id.md): the answer is what programs really have.
func (s *sight) identity() Identity {
	if s.o.UID == 0 {
		return Dropped
	}
	return SingleID
}

func checkIdentityMap(s *sight) Check {
	if s.o.UID == 0 {
		return identityMap.info("not looked for: programs of root run as an id that owns nothing")
	}
	if s.mapping == nil {
		return s.say(&identityMap, &singleID, Info, s.mapLack)
	}
	c := s.byDoing(&identityMap, func(Finding) (*fault, Status) { return &mapRefused, Info })
	if c.Status == OK {
		c.Evidence = fmt.Sprintf("did: map %d ids from %d with %s", s.mapping.UIDs.Count, s.mapping.UIDs.First, s.mapping.NewUIDMap)
	}
	return c
}

func checkIdentityRoot(s *sight) Check {
	seen := "the user id is " + strconv.Itoa(s.o.UID)
	if s.o.UID != 0 {
		return identityRoot.ok(seen)
	}
	// Root of the initial user namespace sees the identity map of all ids.
	m := strings.Join(strings.Fields(s.o.text("/proc/self/uid_map")), " ")
	if m == "0 0 4294967295" {
		return s.say(&identityRoot, &realRoot, Warn, seen+" in the initial user namespace")
	}
	return identityRoot.info(seen + ", in a user namespace in which that is another user's (" + m + ")")
}

package namespaces

import (
	"os"
	"syscall"
	"testing"
)

func TestChoose(t *testing.T) {
	if id := Choose(1000, 100); id.Mode != SingleID || id.HostUID != 1000 || id.HostGID != 100 || id.UID == 0 {
		t.Errorf("an ordinary user gets %+v", id)
	}
	root := Choose(0, 0)
	if root.Mode != Dropped || root.HostUID == 0 || root.HostGID == 0 {
		t.Errorf("root gets %+v: no program may have the kernel's id 0", root)
	}
	if root.HostUID >= 1<<31 {
		t.Errorf("%d is negative for some programs", root.HostUID)
	}
}

// The program's id maps to id 0 of the cell, the only one there is.
func TestMaps(t *testing.T) {
	id := Choose(1234, 5678)
	cu, cg := id.CellMaps()
	su, sg := id.SandboxMaps()
	for got, want := range map[string]string{
		cu.String(): "0 1234 1", cg.String(): "0 5678 1", su.String(): "1000 0 1", sg.String(): "1000 0 1",
	} {
		if got != want {
			t.Errorf("map %q, want %q", got, want)
		}
	}
}

func TestOwnNamespaces(t *testing.T) {
	for _, k := range All {
		n, err := k.OwnInode()
		if err != nil {
			t.Fatal(err)
		}
		// it is what others compare, too
		if st, err := os.Stat("/proc/self/ns/" + string(k)); err != nil || st.Sys().(*syscall.Stat_t).Ino != n {
			t.Errorf("%s: %d and %v, %v", k, n, st, err)
		}
	}
	for _, link := range []string{"", "net", "net:", "net:[]", "net:[1", "net:1", "net:[x]", "net:[-1]", "mnt:[1]", "net:[1]x"} {
		if n, err := Net.Inode(link); err == nil {
			t.Errorf("%q is network namespace %d", link, n)
		}
	}
	if n, err := Net.Inode("net:[4026531840]"); err != nil || n != 4026531840 {
		t.Errorf("network namespace %d, %v", n, err)
	}
	if same, err := SameNet(os.Getpid(), os.Getpid()); err != nil || !same {
		t.Errorf("a process does not share its own network: %v, %v", same, err)
	}
	if _, err := SameNet(-1, os.Getpid()); err == nil {
		t.Error("process -1 has a network namespace")
	}
}

// No further namespace of any kind may be made inside.
func TestLimitsCoverEveryKind(t *testing.T) {
	zero := map[string]bool{}
	for _, l := range Limits {
		if l.Value == 0 {
			zero[l.Name] = true
		}
	}
	for _, k := range All {
		if !zero["max_"+string(k)+"_namespaces"] {
			t.Errorf("the limit of %s namespaces is not 0", k)
		}
	}
}

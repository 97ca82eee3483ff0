package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// delegatedScope asks the caller's systemd user manager for a transient scope
// unit with a delegated cgroup, has it move process pid there, and returns the
// cgroup's directory.
//
// name is the unit's name and ends in ".scope"; a unit of that name must not
// exist. The directory belongs to the caller and lives as long as a process is
// in it or below it; systemd removes it with everything below after that. All
// processes in it must step into a child before its cgroup.subtree_control
// takes a controller.
//
// It needs a running user@UID.service and cgroup version 2.
func delegatedScope(ctx context.Context, name string, pid int) (dir string, err error) {
	conn, err := userManager(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot reach the systemd user manager: %w", err)
	}
	defer conn.Close()

	// Listening comes before asking: a job may end before its name arrives.
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	job, err := startScope(ctx, conn, name, pid)
	if err != nil {
		return "", fmt.Errorf("cannot start scope %q: %w", name, err)
	}
	if err := waitForJob(ctx, signals, job); err != nil {
		return "", fmt.Errorf("cannot start scope %q: %w", name, err)
	}

	dir, err = unifiedCgroup(pid)
	if err != nil {
		return "", err
	}
	// The job's answer says that the unit is active, not that the process is
	// in it: see for ourselves.
	if filepath.Base(dir) != name {
		return "", fmt.Errorf("cannot move process %d to scope %q: it is in %s", pid, name, dir)
	}
	return dir, nil
}

// delegatedUnit returns the cgroup directory of the unit of the caller's
// systemd user manager that process pid is in, if systemd has delegated it. The
// process may stand in a child of that directory. An error says that there is
// no such unit.
func delegatedUnit(ctx context.Context, pid int) (dir string, err error) {
	conn, err := userManager(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot reach the systemd user manager: %w", err)
	}
	defer conn.Close()

	var unit dbus.ObjectPath
	err = conn.Object(systemd, "/org/freedesktop/systemd1").
		CallWithContext(ctx, systemd+".Manager.GetUnitByPID", 0, uint32(pid)).Store(&unit)
	if err != nil {
		return "", fmt.Errorf("cannot find the unit of process %d: %w", pid, err)
	}
	// Only scopes and services can be delegated and hold processes; the other
	// kind's interface is not there.
	for _, kind := range []string{"Scope", "Service"} {
		var delegated, group dbus.Variant
		object := conn.Object(systemd, unit)
		get := "org.freedesktop.DBus.Properties.Get"
		if object.CallWithContext(ctx, get, 0, systemd+"."+kind, "Delegate").Store(&delegated) != nil ||
			object.CallWithContext(ctx, get, 0, systemd+"."+kind, "ControlGroup").Store(&group) != nil {
			continue
		}
		path, _ := group.Value().(string)
		if delegated.Value() == true && path != "" {
			return filepath.Join("/sys/fs/cgroup", path), nil
		}
	}
	return "", fmt.Errorf("process %d is in no delegated unit: %s", pid, unit)
}

// systemd is the name of the manager on the bus and of its interfaces.
const systemd = "org.freedesktop.systemd1"

// viaSystemd makes the tree in a unit that the user's systemd has delegated:
// the one we are in, or a scope that it is asked for. We are moved into a child
// of it, since a cgroup that gives controllers to its children holds no
// process.
func (t *Tree) viaSystemd(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	if dir, err := delegatedUnit(ctx, os.Getpid()); err == nil && t.below(dir, name, comeBack) {
		return true
	}
	dir, err := delegatedScope(ctx, name+".scope", os.Getpid())
	return err == nil && t.below(dir, name, stay)
}

// systemdTimeout bounds the conversation with the user's systemd; it answers in
// milliseconds unless it is stuck.
const systemdTimeout = 5 * time.Second

// userManager connects to the user manager: over the session bus or, where no
// bus is installed, over the manager's own socket, which systemctl --user uses.
//
// Root talks to the system's own manager, over its private socket.
func userManager(ctx context.Context) (*dbus.Conn, error) {
	if os.Geteuid() == 0 {
		return dial(ctx, "unix:path=/run/systemd/private")
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	address := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if runtime == "" {
		// after su or sudo, and in jobs of cron, the variable is not set though
		// the manager of a user who lingers may run
		runtime = filepath.Join("/run/user", strconv.Itoa(os.Geteuid()))
	}
	if address == "" {
		address = "unix:path=" + dbus.EscapeBusAddressValue(filepath.Join(runtime, "bus"))
	}
	conn, errBus := dial(ctx, address)
	if errBus == nil {
		if errBus = conn.Hello(); errBus == nil {
			errBus = conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(systemd+".Manager"), dbus.WithMatchMember("JobRemoved"))
		}
		if errBus == nil {
			return conn, nil
		}
		conn.Close()
	}
	conn, err := dial(ctx, "unix:path="+dbus.EscapeBusAddressValue(filepath.Join(runtime, "systemd", "private")))
	if err != nil {
		return nil, errors.Join(errBus, err)
	}
	return conn, nil
}

// dial connects and authenticates by uid; the name of the user is not needed.
// It does not use dbus.SessionBus, which starts a bus where there is none.
func dial(ctx context.Context, address string) (*dbus.Conn, error) {
	conn, err := dbus.Dial(address, dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// property is one entry of StartTransientUnit's list, D-Bus type (sv).
type property struct {
	Name  string
	Value dbus.Variant
}

// auxiliary is a further unit to start with the first, D-Bus type (sa(sv)).
type auxiliary struct {
	Name       string
	Properties []property
}

func startScope(ctx context.Context, conn *dbus.Conn, name string, pid int) (dbus.ObjectPath, error) {
	properties := []property{
		{"Description", dbus.MakeVariant("isolate sandboxes")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(pid)})},
		{"Delegate", dbus.MakeVariant(true)},
		// A scope whose processes were killed is "failed" and would keep its name.
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	var job dbus.ObjectPath
	err := conn.Object(systemd, "/org/freedesktop/systemd1").
		CallWithContext(ctx, systemd+".Manager.StartTransientUnit", 0,
			name, "fail", properties, []auxiliary{}).Store(&job)
	return job, err
}

// waitForJob returns when systemd has removed the job, with an error unless
// the job was done.
func waitForJob(ctx context.Context, signals <-chan *dbus.Signal, job dbus.ObjectPath) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, open := <-signals:
			if !open {
				return errors.New("the connection was closed")
			}
			var id uint32
			var path dbus.ObjectPath
			var unit, result string
			if s.Name != systemd+".Manager.JobRemoved" ||
				dbus.Store(s.Body, &id, &path, &unit, &result) != nil || path != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("systemd says %q", result)
			}
			return nil
		}
	}
}

// unifiedCgroup is the version 2 cgroup directory of a process.
func unifiedCgroup(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join("/sys/fs/cgroup", path), nil
		}
	}
	return "", fmt.Errorf("process %d has no cgroup of version 2", pid)
}

# A43: leaves a mark of each kind that a network namespace can keep without its processes, or prints all that can be seen of one; source: none, our own reuse of network namespaces
import array
import os
import re
import socket
import struct
import sys

NAME = "\0mark"


def tcp():  # a connection in TIME_WAIT, the counters of lo
    s = socket.create_server(("127.0.0.1", 4711))
    c = socket.create_connection(("127.0.0.1", 4711))
    a = s.accept()[0]
    c.close()
    a.recv(1)


def unread():  # a connection that the kernel goes on with
    s = socket.create_server(("127.0.0.1", 4712))
    c = socket.create_connection(("127.0.0.1", 4712))
    c.send(bytes(1 << 16))


def udp():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::1", 4713))
    s.sendto(b"x", ("::1", 4713))


def nowhere():  # the counter of packets without a route
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.sendmsg([b"x"], [], 0, ("192.0.2.1", 9))
    except OSError:
        pass


def group():  # a group that is left again: its report comes a second later
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1"))
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff01::4711") + struct.pack("I", 1))


def label():  # a flow label lingers for seconds
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    request = struct.pack("=16sIBBHHHI", socket.inet_pton(socket.AF_INET6, "::1"), socket.htonl(0x12345), 0, 255, 1, 6, 60, 0)
    s.setsockopt(socket.IPPROTO_IPV6, 32, request)  # IPV6_FLOWLABEL_MGR: get, create


def made():  # no more than a socket
    socket.socket(socket.AF_INET).close()


def flying():  # a bound name in flight to itself, which the kernel collects when it comes to it
    s = socket.socket(socket.AF_UNIX)
    s.bind(NAME)
    s.listen()
    a, b = socket.socketpair()
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno(), a.fileno(), b.fileno()]))])
    b.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno(), a.fileno(), b.fileno()]))])


def nothing():
    socket.socketpair()


def look():
    for name in sorted(os.listdir("/proc/self/net")):
        path = "/proc/self/net/" + name
        if name in ("softnet_stat", "protocols", "ptype", "dev_snmp6", "netfilter", "stat"):
            continue  # of the machine, or directories
        try:
            text = open(path).read()
        except OSError as e:
            text = e.strerror
        if name == "sockstat":  # "alloc" and "mem" are of the machine
            text = re.sub(r"(alloc|mem|orphan) \d+", "", text)
        if name == "netlink":  # the kernel's own: their addresses and inodes
            text = re.sub(r"^[0-9a-f]+|\d+ *$", "", text, flags=re.M)
        print(name, text)
    lo = "/proc/self/net/dev_snmp6/lo"  # profile strict does not show it
    print(open(lo).read() if os.path.exists(lo) else "")
    s = socket.socket(socket.AF_UNIX)
    print("name:", s.connect_ex(NAME))


if sys.argv[1] == "look":
    look()
else:
    globals()[sys.argv[1]]()
    print("left")

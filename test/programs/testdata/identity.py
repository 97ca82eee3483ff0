# A77, matplotlib#5940, cms-dev/isolate#25: who and where a program is: names
# resolve, HOME and temporary files can be written.
import getpass
import grp
import os
import pwd
import socket
import subprocess
import tempfile

me = pwd.getpwuid(os.getuid())
print("user", getpass.getuser(), me.pw_name == getpass.getuser(), grp.getgrgid(os.getgid()).gr_name != "")
print("whoami", subprocess.check_output("whoami").decode().strip())
print("home", os.path.expanduser("~"), me.pw_dir == os.path.expanduser("~"))
os.makedirs(os.path.expanduser("~/.config/app"))
open(os.path.expanduser("~/.config/app/rc"), "w").write("x")
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g:
    f.write(b"x")
    g.write(b"x")
    print("temporary", os.path.dirname(d), os.path.dirname(f.name))
print("host", socket.gethostname(), socket.gethostbyname("localhost"))
print("nobody else", len(pwd.getpwall()) <= 3)

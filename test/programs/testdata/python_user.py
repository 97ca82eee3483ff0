# A77: who the program is and where it may write: names, home, temporary files.
import getpass, os, pathlib, pwd, subprocess, tempfile

home = os.path.expanduser("~")
me = pwd.getpwuid(os.getuid())
print(getpass.getuser(), me.pw_name, subprocess.check_output(["whoami"], text=True).strip())
print(home == me.pw_dir == str(pathlib.Path.home()), os.access(home, os.W_OK))
(pathlib.Path(home) / ".config").mkdir()
with tempfile.TemporaryDirectory() as d:
    p = pathlib.Path(d, "x")
    p.write_text("temporary")
    print(p.parent.parent, p.read_text())
with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g:
    f.write(b"a"), g.write(b"b")
    print(os.path.exists(f.name))

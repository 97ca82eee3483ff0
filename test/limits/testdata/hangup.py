# A53, gVisor's PTY cases: a program with a terminal ends and leaves a child in
# its foreground group, which is sent SIGHUP and says so in a file.
import os, signal, time

if os.fork() == 0:
    def hangup(*_):
        open("/workspace/hangup", "w").write("hangup\n")
        os._exit(0)
    signal.signal(signal.SIGHUP, hangup)
    open("/workspace/child", "w").close()
    time.sleep(50)
while not os.path.exists("/workspace/child"):
    time.sleep(0.01)

# B87: what tells the host's load, model and times: cpuinfo, stat, meminfo, uptime, loadavg; source: arXiv 2404.10715
echo "model: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u)"
echo "clock: $(sed -n 's/^cpu MHz[^:]*: //p' /proc/cpuinfo | sort -u)"
echo "uptime: $(cat /proc/uptime)"
echo "load: $(cat /proc/loadavg)"
echo "processor time: $(head -1 /proc/stat)"
echo "start time: $(grep btime /proc/stat)"
echo "switches: $(grep ctxt /proc/stat)"
echo "memory: $(grep MemTotal /proc/meminfo | tr -s ' ')"

# A79: a terminal multiplexer: server, socket, terminal, shell.
set -eu
tmux -f /dev/null new-session -d -s s -x 80 -y 24 sh
tmux send-keys -t s 'echo $((6*7)) >/tmp/done; tmux wait-for -S ready' Enter
tmux wait-for ready
cat /tmp/done
tmux list-sessions -F '#{session_name} #{window_width}'
tmux kill-server

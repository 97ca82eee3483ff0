# A82: a named pipe between two jobs.
set -eu
mkfifo pipe
(echo named >pipe) &
cat pipe

# A82: the sqlite3 shell on a file.
set -eu
sqlite3 d.db 'create table t(a,b); insert into t values (1,"x"),(2,"y");'
sqlite3 -csv d.db 'select sum(a), group_concat(b) from t'
sqlite3 d.db 'pragma journal_mode=wal; vacuum; pragma integrity_check'

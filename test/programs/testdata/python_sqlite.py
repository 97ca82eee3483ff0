# The sqlite3 module: a database file with a write-ahead log, and one in memory.
import sqlite3

db = sqlite3.connect("data.db")
print(db.execute("pragma journal_mode=wal").fetchone()[0])
db.execute("create table t(n integer primary key, s text)")
with db:
    db.executemany("insert into t(s) values (?)", [("row %d" % i,) for i in range(1000)])
other = sqlite3.connect("data.db")
print(other.execute("select count(*), max(s) from t").fetchone())
print(sqlite3.connect(":memory:").execute("select 6*7").fetchone()[0])

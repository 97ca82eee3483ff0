# B82: sqlite on disk with journal and write-ahead log, from several threads.
import sqlite3
import threading

for mode in ("delete", "wal"):
    name = f"/tmp/{mode}.db"
    db = sqlite3.connect(name)
    print(mode, db.execute(f"pragma journal_mode={mode}").fetchone()[0])
    db.execute("create table t(n integer)")
    db.commit()

    def insert(n):
        own = sqlite3.connect(name, timeout=60)
        with own:
            own.execute("insert into t values(?)", (n,))
        own.close()

    threads = [threading.Thread(target=insert, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("sum", db.execute("select sum(n) from t").fetchone()[0])
    db.close()

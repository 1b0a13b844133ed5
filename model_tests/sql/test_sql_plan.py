"""The claim finds its batch by an index, however large the backlog, without statistics (Q5)."""

from __future__ import annotations

import re

from sql.conftest import MakeSql
from sql.database import ask

from lychgate import Sql
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.sql_server import SqlServer

BACKLOG = 20_000

FILL = {
    "sqlite": """
WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < :last)
INSERT INTO lychgate_tasks
SELECT printf('%08d', n), NULL, x'31', 'json', NULL,
       CASE WHEN n % 2 = 0 THEN n ELSE 4e9 + n END, CASE WHEN n % 500 = 0 THEN 2 ELSE 0 END, 1
FROM s""",
    "postgres": """
INSERT INTO lychgate_tasks
SELECT lpad(CAST(n AS text), 8, '0'), NULL, CAST('1' AS bytea), 'json', NULL,
       CASE WHEN n % 2 = 0 THEN n ELSE 4e9 + n END, CASE WHEN n % 500 = 0 THEN 2 ELSE 0 END, 1
FROM generate_series(0, CAST(:last AS integer)) AS n""",
    "mariadb": """
INSERT INTO lychgate_tasks
  (id, owner_id, serialized_task, codec, publish_at, due_at, claim_count, created_at)
SELECT lpad(seq, 8, '0'), NULL, '1', 'json', NULL,
       IF(seq % 2 = 0, seq, 4e9 + seq), IF(seq % 500 = 0, 2, 0), 1
FROM seq_0_to_999999 WHERE seq <= :last""",
}


EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "postgres": "EXPLAIN (ANALYZE, TIMING OFF) ",
    "mariadb": "ANALYZE FORMAT=JSON ",
}
READ = {"postgres": r"Index Scan.*actual rows=(\d+)", "mariadb": r'"r_rows": (\d+)'}
"""How many rows an index gave."""


def test_the_claim_uses_its_indexes(make: MakeSql, url: str) -> None:
    """Q2, Q5: no scan and no sort of the backlog, and no more rows are read than are claimed."""
    worker = make()
    driver = driver_of(url, str)
    connection = driver.connect()
    connection.change(FILL[driver.name], {"last": BACKLOG - 1})
    connection.close()
    assert [it[0] for it in worker.pending_tasks()][:2] == ["00000000", "00000002"]
    values = {"me": worker._worker.name, "stale": 90.0, "batch": 150, "suspects": 1}
    connection = driver.connect()
    connection.begin(True)
    rows = connection.rows(EXPLAIN[driver.name] + driver.words.claim, values)
    connection.rollback()
    connection.close()
    plan = "\n".join(str(row[-1]) for row in rows)
    indexes = ["lychgate_tasks_due"]  # MariaDB has no partial ones: both arms read this one
    if driver.name != "mariadb":
        indexes.append("lychgate_tasks_suspect")
    for index in indexes:
        assert re.search(rf'(SEARCH|Index Scan|"key": ").*{index}', plan), plan
    assert "SCAN lychgate_tasks" not in plan and "Seq Scan" not in plan
    assert "TEMP B-TREE" not in plan and "Sort" not in plan and "filesort" not in plan
    if driver.name in READ:
        read = [int(n) for n in re.findall(READ[driver.name], plan)]
        assert read and all(n <= 151 for n in read), "as many as are claimed"
    assert ask(url, "SELECT count(*) FROM lychgate_tasks WHERE owner_id IS NULL") == [
        (BACKLOG - 151,)
    ]


def test_a_claim_locks_its_batch_alone(server: SqlServer) -> None:
    """Q5: while a claim is open others get the next rows, and add between and beyond them."""
    url = server.new_schema()
    driver = driver_of(url, str)
    apply(driver)
    with Sql(url, batch_size=10) as one, Sql(url, batch_size=10) as other:
        for n in range(40):
            one.add_task(n, 10.0 + n, f"t{n:02}")
        claim = driver.connect()
        claim.begin(True)
        first = one._db.claim(claim, one._worker.name, 10, 1)
        assert [row.key for row in first] == [f"t{n:02}" for n in range(10)]
        assert [it[0] for it in other.pending_tasks()] == [f"t{n:02}" for n in range(10, 20)]
        for due in (10.5, 19.5, 20.0, 3e9):  # a lock on a gap would make these wait
            other.add_task("between", due)
        other.remove_task("t10")
        other.remove_task("t30")
        claim.commit()
        claim.close()

"""The claim finds its batch by an index, however large the backlog, without statistics (Q5)."""

from __future__ import annotations

import re

from sql.conftest import MakeSql
from sql.database import ask

from lychgate._sql_options import driver_of

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
}


def test_the_claim_uses_its_indexes(make: MakeSql, url: str) -> None:
    """Q2, Q5: no scan and no sort of the backlog: due rows from one index, suspects from one."""
    worker = make()
    driver = driver_of(url, str)
    connection = driver.connect()
    connection.change(FILL[driver.name], {"last": BACKLOG - 1})
    connection.close()
    assert [it[0] for it in worker.pending_tasks()][:2] == ["00000000", "00000002"]
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN (ANALYZE, TIMING OFF) "}
    values = {"me": worker._worker.name, "stale": 90.0, "batch": 150, "suspects": 1}
    connection = driver.connect()
    connection.begin(True)
    rows = connection.rows(explain[driver.name] + driver.words.claim, values)
    connection.rollback()
    connection.close()
    plan = "\n".join(str(row[-1]) for row in rows)
    for index in ("lychgate_tasks_due", "lychgate_tasks_suspect"):
        assert re.search(rf"(SEARCH|Index Scan).*{index}", plan), plan
    assert "SCAN lychgate_tasks" not in plan and "Seq Scan" not in plan
    assert "TEMP B-TREE" not in plan and "Sort" not in plan
    read = [int(n) for n in re.findall(r"Index Scan.*actual rows=(\d+)", plan)]
    assert all(n <= 150 for n in read), "as many as are claimed"
    assert ask(url, "SELECT count(*) FROM lychgate_tasks WHERE owner_id IS NULL") == [
        (BACKLOG - 151,)
    ]

----------------------------- MODULE StoreBroken -----------------------------
(***************************************************************************)
(* Ways in which the parts must not be put together, one action each; a    *)
(* model puts it in the place of the original of Store.tla.                *)
(***************************************************************************)
EXTENDS Store

\* D32 forgotten: the next holder goes on behind a mark that is set, on an inode whose name, or
\* whose older records, may not be durable.  (A drop stages in any case.)
LockTryTrusting(p) ==
  /\ pc[p] \in {"add", "drop"} /\ holder = Nobody
  /\ holder' = p /\ marked' = TRUE
  /\ Goto(p, IF pc[p] = "drop" THEN "drop.RenameStaging" ELSE "add.AppendRecord")
  /\ UNCHANGED <<wal, up, ready, cur, live, inode, former, promises, budgets>>

\* D15 forgotten: the lock does not exclude the fibers of one worker.
LockTryShared(p) ==
  /\ pc[p] \in {"add", "drop"}
  /\ IF holder = Nobody THEN TRUE ELSE holder[1] = p[1]
  /\ holder' = p /\ marked' = TRUE
  /\ Goto(p, IF pc[p] = "drop" THEN "drop.RenameStaging" ELSE "add.AppendRecord")
  /\ UNCHANGED <<wal, up, ready, cur, live, inode, former, promises, budgets>>

\* D17 forgotten: acknowledged without an fsync.
AppendRecordOnly(p) ==
  /\ pc[p] = "add.AppendRecord"
  /\ live' = live \cup {cur[p]}
  /\ inode' = inode \cup {s \cup {cur[p]} : s \in inode}
  /\ Goto(p, "add.Unlock")
  /\ UNCHANGED <<wal, up, ready, cur, holder, marked, former, promises, budgets>>

\* U4 without its sync.
FsyncSuccessorNot(p) ==
  /\ pc[p] = "sync"
  /\ Goto(p, "drop")
  /\ UNCHANGED <<wal, up, ready, cur, dlq, promises, budgets>>

\* Scheduled before it is written (U1).
AppendNewLate(p, j) ==
  LET i == <<j, 0>>
  IN  /\ Idle(p) /\ i \notin used
      /\ used' = used \cup {i} /\ Keep(p[1], i)
      /\ UNCHANGED <<task, at, up, pc, cur, dlq, promises, budgets>>
=============================================================================

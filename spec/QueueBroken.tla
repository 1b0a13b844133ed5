----------------------------- MODULE QueueBroken -----------------------------
(***************************************************************************)
(* Queues that Queue.tla rejects, one action each; a model puts it in the  *)
(* place of the original (cfg: Enqueue <- EnqueueUnwritten).               *)
(***************************************************************************)
EXTENDS Queue

\* U3 the wrong way round: the WAL entry goes before the dead-task store has acknowledged.
RunFailsRemoveFirst(p) ==
  /\ pc[p] = "run" /\ Job(cur[p]) \notin Poison
  /\ IF count[cur[p]].runs < MaxAttempts
     THEN Goto(p, "retry", cur[p]) /\ UNCHANGED <<store, at, jobs>>
     ELSE /\ Goto(p, "giveup", cur[p])
          /\ Backend!RemoveTask(cur[p])
          /\ at' = [at EXCEPT ![cur[p]] = Nobody]
          /\ UNCHANGED jobs
  /\ UNCHANGED <<count, used, up, ready, over, kills, crashes, timeouts>>

\* U4 the wrong way round: the dead task is deleted, then its successor is added.
RetryDeadDeleteFirst(p, i) ==
  /\ Idle(p)
  /\ i[2] < Retries /\ dead[i].now /\ Next0(i) \notin used
  /\ Backend!DropDead({i})
  /\ dead'[i].disk = {FALSE}
  /\ Goto(p, "sync", i)
  /\ UNCHANGED <<at, count, used, up, ready, jobs, over, kills, crashes, timeouts>>

RetrySyncAddLate(p) ==
  LET new == Next0(cur[p])
  IN  /\ pc[p] = "sync" /\ new \notin used
      /\ used' = used \cup {new}
      /\ Backend!AddTask(new)
      /\ at' = [at EXCEPT ![new] = p[1]]
      /\ ready' = [ready EXCEPT ![p[1]] = @ \cup {new}]
      /\ Rest(p)
      /\ UNCHANGED <<count, up, jobs, over, kills, crashes, timeouts>>

\* U4 without its sync.
RetrySyncMissing(p) ==
  /\ pc[p] = "sync"
  /\ Goto(p, "drop", cur[p])
  /\ UNCHANGED <<store, at, count, used, up, ready, jobs, over, kills, crashes, timeouts>>

\* U7 forgotten: attempts are not counted before the run.
CountNothing(p, i) ==
  /\ Idle(p) /\ i \in ready[p[1]] /\ Deaths(i) < DeathsMax
  /\ ready' = [ready EXCEPT ![p[1]] = @ \ {i}]
  /\ Goto(p, "run", i)
  /\ UNCHANGED <<store, at, count, used, up, jobs, over, kills, crashes, timeouts>>

\* A time-out forgets the WAL entry as well.
TimeoutRemoves(p) ==
  /\ pc[p] = "giveup" /\ timeouts < TimeoutMax
  /\ timeouts' = timeouts + 1
  /\ Backend!RemoveTask(cur[p])
  /\ at' = [at EXCEPT ![cur[p]] = Nobody]
  /\ Rest(p)
  /\ UNCHANGED <<count, used, up, ready, jobs, over, kills, crashes>>

\* U1 the wrong way round: scheduled, not yet written.
EnqueueUnwritten(p, j) ==
  LET i == <<j, 0>>
  IN  /\ Idle(p)
      /\ i \notin used
      /\ used' = used \cup {i}
      /\ ready' = [ready EXCEPT ![p[1]] = @ \cup {i}]
      /\ UNCHANGED <<store, at, count, up, pc, cur, jobs, over, kills, crashes, timeouts>>

\* A task stays in memory while a fiber runs it.
CountTwice(p, i) ==
  /\ Idle(p) /\ i \in ready[p[1]] /\ Deaths(i) < DeathsMax
  /\ count' = [count EXCEPT ![i].runs = @ + 1]
  /\ Backend!AddTask(i)
  /\ Goto(p, "run", i)
  /\ UNCHANGED <<at, used, up, ready, jobs, over, kills, crashes, timeouts>>

\* The dead-task store acknowledges before its fsync.
AddDeadUnsynced(p) ==
  /\ pc[p] = "giveup"
  /\ Backend!TryDead(cur[p])
  /\ jobs' = (jobs \cup {Job(cur[p])}) \ over
  /\ Goto(p, "remove", cur[p])
  /\ UNCHANGED <<at, count, used, up, ready, over, kills, crashes, timeouts>>

\* Nobody ever stops a worker that has parked a task.
HalfFairSpec ==
  /\ Spec
  /\ \A w \in Workers : WF_vars(Start(w)) /\ WF_vars(Take(w))
  /\ \A p \in Procs : WF_vars(Step(p))
=============================================================================

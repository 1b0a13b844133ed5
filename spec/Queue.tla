-------------------------------- MODULE Queue --------------------------------
(***************************************************************************)
(* The queue over a backend: enqueue, run, retry under the same id,        *)
(* give-up, retry of a dead task under a fresh id, restart and replay.     *)
(* Requirements U1-U4, U7, U8.                                             *)
(*                                                                         *)
(* A worker is a process, a fiber p is <<worker, k>>.  The backend is the  *)
(* abstract one: the WAL at the level of WalSpec (what the kernel shows,   *)
(* what a host crash may make of it, who holds it) and the dead-task store *)
(* at the level of DeadTasksSpec (durable when acknowledged, or not known  *)
(* when failed).  TLC checks that what the queue makes of them is a        *)
(* behaviour of BackendSpec.  Steps are calls on the backend, each one     *)
(* atomic here: what happens inside one is the matter of Wal and           *)
(* DeadTasks, and Store puts the pieces together again.                    *)
(*                                                                         *)
(* An id is <<job, k>>: k counts the retries out of the dead-task store,   *)
(* so that fresh ids keep their link to the old one (U8).                  *)
(*                                                                         *)
(* A task that is taken out of its worker with the worker (U7) is told by  *)
(* the WAL: before a run its record says that one began, and a retry's     *)
(* that it was seen to end.  Who finds the first at a start counts a       *)
(* death; too many in a row, and the task is given up unrun.  Attempts     *)
(* (MaxAttempts) and deaths (DeathsMax) are counted apart: a task that a   *)
(* kill interrupted has not failed.                                        *)
(*                                                                         *)
(* Left out, with the reason: times and delays (a task that is not due is  *)
(* one that no fiber has taken yet), backpressure (U5: it only delays      *)
(* Enqueue), tasks that cannot be loaded (U6: a run that fails at once),   *)
(* WAL calls that fail (Wal has them; the queue does nothing on them), two *)
(* copies of one task after a crash inside a merge (the task then runs     *)
(* twice, and every step below may as well have happened twice).           *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Workers,
  Fibers,       \* fibers of each worker
  Jobs,
  Retries,      \* how often a job may come back out of the dead-task store
  MaxAttempts,  \* attempts, the first included, before a task that fails is given up
  DeathsMax,    \* workers in a row that may die while they run a task (U7)
  Poison,       \* jobs that kill their worker whenever they run (U7)
  Nobody,       \* no worker; also no id
  KillMax, CrashMax, TimeoutMax  \* budgets: in the guards, not in a CONSTRAINT, for liveness

VARIABLES
  task, dead, owed,  \* as in BackendSpec
  at,                \* at[i]: the worker whose WAL file holds i, or Nobody (a file without owner)
  count,             \* count[i]: what the WAL has recorded of the runs of i, see NoRuns
  used,              \* ids ever made
  up,                \* workers that run
  ready,             \* ready[w]: ids that w has in memory and no fiber has taken
  pc, cur,           \* per fiber: where it is, and the id it has in hand
  jobs,              \* history: jobs that some store has vouched for and nobody has finished
  over,              \* history: jobs that ran well once, or that a person deleted
  kills, crashes, timeouts

store == <<task, dead, owed>>
vars == <<task, dead, owed, at, count, used, up, ready, pc, cur, jobs, over,
          kills, crashes, timeouts>>
budgets == <<kills, crashes, timeouts>>

Ids == Jobs \X (0..Retries)
Procs == Workers \X Fibers
Job(i) == i[1]
Next0(i) == <<i[1], i[2] + 1>>  \* the id that a retry of the dead task i would get
FibersOf(w) == {w} \X Fibers

Backend == INSTANCE BackendSpec
BackendIsKept == Backend!Spec

\* Runs that began; whether nobody saw the end of the last one; workers in a row that had died
\* when it began.
NoRuns == [runs |-> 0, open |-> FALSE, deaths |-> 0]
Deaths(i) == count[i].deaths + IF count[i].open THEN 1 ELSE 0

TypeOK ==
  /\ Backend!TypeOK
  /\ at \in [Ids -> Workers \cup {Nobody}]
  /\ \A i \in Ids : /\ count[i].runs \in 0..(MaxAttempts + DeathsMax)
                      /\ count[i].deaths \in 0..DeathsMax
  /\ used \subseteq Ids
  /\ up \subseteq Workers
  /\ ready \in [Workers -> SUBSET Ids]
  /\ pc \in [Procs -> {"idle", "run", "retry", "giveup", "remove", "sync", "drop"}]
  /\ cur \in [Procs -> Ids \cup {Nobody}]
  /\ jobs \subseteq Jobs /\ over \subseteq Jobs

Init ==
  /\ Backend!Init
  /\ at = [i \in Ids |-> Nobody]
  /\ count = [i \in Ids |-> NoRuns]
  /\ used = {}
  /\ up = {}
  /\ ready = [w \in Workers |-> {}]
  /\ pc = [p \in Procs |-> "idle"]
  /\ cur = [p \in Procs |-> Nobody]
  /\ jobs = {} /\ over = {}
  /\ kills = 0 /\ crashes = 0 /\ timeouts = 0

Goto(p, where, i) == pc' = [pc EXCEPT ![p] = where] /\ cur' = [cur EXCEPT ![p] = i]
Rest(p) == Goto(p, "idle", Nobody)
Idle(p) == p[1] \in up /\ pc[p] = "idle"

-----------------------------------------------------------------------------
(***************************************************************************)
(* A worker starts and takes every task without an owner (W2): which one   *)
(* of several starters gets which file is a matter of Wal; here it is all. *)
(***************************************************************************)
Start(w) ==
  /\ w \notin up
  /\ up' = up \cup {w}
  /\ LET mine == {i \in Ids : task[i].now /\ at[i] = Nobody}
     IN  /\ at' = [i \in Ids |-> IF i \in mine THEN w ELSE at[i]]
         /\ ready' = [ready EXCEPT ![w] = mine]
  /\ UNCHANGED <<task, dead, owed, count, used, pc, cur, jobs, over, kills, crashes, timeouts>>

\* A task that this worker holds and no fiber or memory of its own knows: its give-up has failed.
Parked(w) ==
  {i \in Ids : task[i].now /\ at[i] = w /\ i \notin ready[w] /\ \A p \in FibersOf(w) : cur[p] # i}

\* A graceful stop, for instance of a deployment: idle fibers, nothing lost.
Stop(w) ==
  /\ w \in up
  /\ ready[w] = {}
  /\ \A p \in FibersOf(w) : pc[p] = "idle"
  /\ Parked(w) # {}
  /\ up' = up \ {w}
  /\ at' = [i \in Ids |-> IF at[i] = w THEN Nobody ELSE at[i]]
  /\ UNCHANGED <<task, dead, owed, count, used, ready, pc, cur, jobs, over,
                 kills, crashes, timeouts>>

\* U1: the backend first, then the schedule.
Enqueue(p, j) ==
  LET i == <<j, 0>>  w == p[1]
  IN  /\ Idle(p)
      /\ i \notin used
      /\ used' = used \cup {i}
      /\ Backend!AddTask(i)
      /\ at' = [at EXCEPT ![i] = w]
      /\ ready' = [ready EXCEPT ![w] = @ \cup {i}]
      /\ UNCHANGED <<count, up, pc, cur, jobs, over, kills, crashes, timeouts>>

\* tick or sync: all that this worker holds, or has removed, becomes durable (D2).
Handled(w) == {i \in used : at[i] = w \/ (at[i] = Nobody /\ ~task[i].now)}
SyncAll(w) ==
  LET held == {i \in Ids : at[i] = w /\ task[i].now}
  IN  /\ Backend!Sync(Handled(w), held)
      /\ jobs' = (jobs \cup {Job(i) : i \in held}) \ over

Sync(w) ==
  /\ w \in up
  /\ \E i \in Handled(w) : task[i].disk # {task[i].now}
  /\ SyncAll(w)
  /\ UNCHANGED <<at, count, used, up, ready, pc, cur, over, kills, crashes, timeouts>>

-----------------------------------------------------------------------------
\* U7: the attempt is in the WAL before the task runs: a re-add of the same id.
Count(p, i) ==
  /\ Idle(p) /\ i \in ready[p[1]] /\ Deaths(i) < DeathsMax
  /\ ready' = [ready EXCEPT ![p[1]] = @ \ {i}]
  /\ count' = [count EXCEPT ![i] = [runs |-> @.runs + 1, open |-> TRUE, deaths |-> Deaths(i)]]
  /\ Backend!AddTask(i)
  /\ Goto(p, "run", i)
  /\ UNCHANGED <<at, used, up, jobs, over, kills, crashes, timeouts>>

\* A task that took too many workers with it: whoever starts gives it up.
TakeExhausted(p, i) ==
  /\ Idle(p) /\ i \in ready[p[1]] /\ Deaths(i) >= DeathsMax
  /\ ready' = [ready EXCEPT ![p[1]] = @ \ {i}]
  /\ Goto(p, "giveup", i)
  /\ UNCHANGED <<store, at, count, used, up, jobs, over, kills, crashes, timeouts>>

RunOk(p) ==
  /\ pc[p] = "run" /\ Job(cur[p]) \notin Poison
  /\ Goto(p, "remove", cur[p])
  /\ jobs' = jobs \ {Job(cur[p])}
  /\ over' = over \cup {Job(cur[p])}
  /\ UNCHANGED <<store, at, count, used, up, ready, kills, crashes, timeouts>>

RunFails(p) ==
  /\ pc[p] = "run" /\ Job(cur[p]) \notin Poison
  /\ Goto(p, IF count[cur[p]].runs < MaxAttempts THEN "retry" ELSE "giveup", cur[p])
  /\ UNCHANGED <<store, at, count, used, up, ready, jobs, over, kills, crashes, timeouts>>

\* U2: the retry is persisted under the same id, then scheduled.  Its run was seen to end.
Retry(p) ==
  /\ pc[p] = "retry"
  /\ Backend!AddTask(cur[p])
  /\ count' = [count EXCEPT ![cur[p]].open = FALSE, ![cur[p]].deaths = 0]
  /\ ready' = [ready EXCEPT ![p[1]] = @ \cup {cur[p]}]
  /\ Rest(p)
  /\ UNCHANGED <<at, used, up, jobs, over, kills, crashes, timeouts>>

-----------------------------------------------------------------------------
\* U3: give-up.  The dead-task store acknowledges first ...
AddDead(p) ==
  /\ pc[p] = "giveup"
  /\ Backend!AddDead(cur[p])
  /\ jobs' = (jobs \cup {Job(cur[p])}) \ over
  /\ Goto(p, "remove", cur[p])
  /\ UNCHANGED <<at, count, used, up, ready, over, kills, crashes, timeouts>>

\* ... or does not: a time-out changes nothing (D14) and leaves the WAL entry for the next start ...
AddDeadTimesOut(p) ==
  /\ pc[p] = "giveup" /\ timeouts < TimeoutMax
  /\ timeouts' = timeouts + 1
  /\ Rest(p)
  /\ UNCHANGED <<store, at, count, used, up, ready, jobs, over, kills, crashes>>

\* ... and any other error leaves it unknown (D19).
AddDeadFails(p) ==
  /\ pc[p] = "giveup" /\ timeouts < TimeoutMax
  /\ timeouts' = timeouts + 1
  /\ Backend!TryDead(cur[p])
  /\ Rest(p)
  /\ UNCHANGED <<at, count, used, up, ready, jobs, over, kills, crashes>>

\* Of a task that ran, or that the dead-task store has.
RemoveTask(p) ==
  /\ pc[p] = "remove"
  /\ Backend!RemoveTask(cur[p])
  /\ at' = [at EXCEPT ![cur[p]] = Nobody]
  /\ Rest(p)
  /\ UNCHANGED <<count, used, up, ready, jobs, over, kills, crashes, timeouts>>

-----------------------------------------------------------------------------
\* U4, U8: retry of a dead task.  A fresh id goes into the WAL, and is scheduled like any other:
\* whether it runs before the dead one is gone makes no difference to anybody.
RetryDead(p, i) ==
  LET new == Next0(i)
  IN  /\ Idle(p)
      /\ i[2] < Retries /\ dead[i].now /\ new \notin used
      /\ used' = used \cup {new}
      /\ Backend!AddTask(new)
      /\ at' = [at EXCEPT ![new] = p[1]]
      /\ ready' = [ready EXCEPT ![p[1]] = @ \cup {new}]
      /\ Goto(p, "sync", i)
      /\ UNCHANGED <<count, up, jobs, over, kills, crashes, timeouts>>

\* Without this step the next one would remove the only durable copy.
RetrySync(p) ==
  /\ pc[p] = "sync"
  /\ SyncAll(p[1])
  /\ Goto(p, "drop", cur[p])
  /\ UNCHANGED <<at, count, used, up, ready, over, kills, crashes, timeouts>>

RetryDrop(p) ==
  /\ pc[p] = "drop"
  /\ Backend!DropDead({cur[p]})
  /\ dead'[cur[p]].disk = {FALSE}
  /\ Rest(p)
  /\ UNCHANGED <<at, count, used, up, ready, jobs, over, kills, crashes, timeouts>>

\* A person deletes a dead task; the job is then owed no more.
Forget(p, i) ==
  /\ Idle(p) /\ dead[i].now /\ \A q \in Procs : cur[q] # i
  /\ Backend!DropDead({i})
  /\ dead'[i].disk = {FALSE}
  /\ jobs' = jobs \ {Job(i)}
  /\ over' = over \cup {Job(i)}
  /\ UNCHANGED <<at, count, used, up, ready, pc, cur, kills, crashes, timeouts>>

-----------------------------------------------------------------------------
\* A process dies: its memory is gone, its WAL file has no owner, the kernel keeps what it has (W8).
Die(w) ==
  /\ up' = up \ {w}
  /\ at' = [i \in Ids |-> IF at[i] = w THEN Nobody ELSE at[i]]
  /\ ready' = [ready EXCEPT ![w] = {}]
  /\ pc' = [p \in Procs |-> IF p[1] = w THEN "idle" ELSE pc[p]]
  /\ cur' = [p \in Procs |-> IF p[1] = w THEN Nobody ELSE cur[p]]
  /\ UNCHANGED <<task, dead, owed, count, used, jobs, over>>

Kill(w) ==
  w \in up /\ kills < KillMax /\ kills' = kills + 1 /\ Die(w) /\ UNCHANGED <<crashes, timeouts>>

\* Not in any budget: only the count in the WAL ends it (U7).
RunKills(p) ==
  /\ pc[p] = "run" /\ Job(cur[p]) \in Poison
  /\ Die(p[1])
  /\ UNCHANGED budgets

\* Recorded attempts are as little durable as the rest of the WAL: some may be forgotten.
HostCrash ==
  /\ crashes < CrashMax
  /\ crashes' = crashes + 1
  /\ Backend!HostCrash
  /\ \E forget \in BOOLEAN : count' = IF forget THEN [i \in Ids |-> NoRuns] ELSE count
  /\ up' = {}
  /\ at' = [i \in Ids |-> Nobody]
  /\ ready' = [w \in Workers |-> {}]
  /\ pc' = [p \in Procs |-> "idle"]
  /\ cur' = [p \in Procs |-> Nobody]
  /\ UNCHANGED <<used, jobs, over, kills, timeouts>>

\* Everything that could be done is done; keeps deadlock checking on.
Done ==
  /\ up = Workers
  /\ \A p \in Procs : pc[p] = "idle"
  /\ \A w \in Workers : ready[w] = {}
  /\ UNCHANGED vars

Step(p) ==
  \/ RunOk(p) \/ RunFails(p) \/ RunKills(p) \/ Retry(p)
  \/ AddDead(p) \/ AddDeadTimesOut(p) \/ AddDeadFails(p) \/ RemoveTask(p)
  \/ RetrySync(p) \/ RetryDrop(p)

Next ==
  \/ \E w \in Workers : Start(w) \/ Stop(w) \/ Sync(w) \/ Kill(w)
  \/ \E p \in Procs, j \in Jobs : Enqueue(p, j)
  \/ \E p \in Procs, i \in Ids :
       Count(p, i) \/ TakeExhausted(p, i) \/ RetryDead(p, i) \/ Forget(p, i)
  \/ \E p \in Procs : Step(p)
  \/ HostCrash
  \/ Done

(***************************************************************************)
(* Fairness: workers are started again, fibers go on, a ready task is      *)
(* taken, and a worker with parked tasks is stopped some day (deployments  *)
(* do that).  None for enqueueing, for people, for kills and crashes, nor  *)
(* for time-outs, which are bounded by their budget.                       *)
(***************************************************************************)
Take(w) == \E p \in FibersOf(w), i \in Ids : Count(p, i) \/ TakeExhausted(p, i)
Fairness ==
  /\ \A w \in Workers : WF_vars(Start(w)) /\ WF_vars(Stop(w)) /\ WF_vars(Take(w))
  /\ \A p \in Procs : WF_vars(Step(p))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Every job that some store has vouched for and nobody has finished is in *)
(* the WAL or in the dead-task store in every durable state: the given-up  *)
(* ones (U3), those on their way back (U4), and those that wait.           *)
(***************************************************************************)
JobIsKept(j) == \E i \in Ids : Job(i) = j /\ Backend!Safe(i)
NoGivenUpLoss == \A j \in jobs : JobIsKept(j)

\* A process crash loses no acknowledged task: what memory knows, the kernel has.
MemoryIsBacked ==
  \A w \in Workers : \A i \in ready[w] : task[i].now /\ at[i] = w

\* A task is in one pair of hands.  Somebody may retry the dead task before its WAL entry is gone.
InHand(p) == pc[p] \in {"run", "retry", "giveup", "remove"}
RunsOnce == \A p, q \in Procs : p # q /\ InHand(p) /\ InHand(q) => cur[p] # cur[q]

\* Liveness.  A task whose give-up timed out, or that a host crash brings back to the WAL, runs once
\* more after the next start, and may run well then.
GivingUp(i) == \E p \in Procs : pc[p] = "giveup" /\ cur[p] = i
GiveUpReachesDeadTasks ==
  \A i \in Ids : GivingUp(i) ~> (dead[i].now \/ Job(i) \in over \/ crashes > 0)
EveryTaskSettles == \A i \in Ids : task[i].now ~> ~task[i].now
=============================================================================

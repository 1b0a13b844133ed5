-------------------------------- MODULE Store --------------------------------
(***************************************************************************)
(* The pieces put together: workers of several fibers each, enqueueing,    *)
(* running, giving up and retrying dead tasks, over the steps of both      *)
(* stores, with kills, failures, a host crash and recovery.  Wal and       *)
(* DeadTasks check each store alone, in every detail; here the stores keep *)
(* only the steps that another worker or a crash can tell apart:           *)
(*                                                                         *)
(*   WAL   AppendWal FsyncWal, as WalSpec has them (who holds a task, what *)
(*         a host crash may make of it): Wal refines that;                 *)
(*   DLQ   lock, append, fsync, rename, directory fsync.                   *)
(*                                                                         *)
(* Merged, with the reason:                                                *)
(*   LockTry    with the fiber flag, CheckLock, ReadMark and SetMark, and  *)
(*              ClearMark with Unlock: only the holder looks at the mark,  *)
(*              and the kernel frees the lock of one who dies in between   *)
(*   RenameStaging  with CreateStaging, ReadLive, WriteStaging and         *)
(*              FsyncStaging before it: no path leads to what they make,   *)
(*              and a new inode holds nothing old                          *)
(*   AppendRecord  with OpenData, ReadTail and TruncateTail: a torn tail   *)
(*              is cut by whoever appends next (DeadTasks checks that)     *)
(*   Take       a start with its claims and merges (Wal checks those); its  *)
(*              republishing is that of the next change (DeadTasks checks  *)
(*              it as `prepare`): a start that finds the lock taken skips  *)
(*              it, as all do here                                         *)
(*   reading    list and find change nothing                               *)
(*                                                                         *)
(* The live file is the set of its records: order and copies do not matter *)
(* here.  What a host crash may leave of it is a set of such sets, as in   *)
(* FileSystem: an append adds outcomes, an fsync leaves one per inode, and *)
(* after a rename the old inode is among the outcomes until the directory  *)
(* is durable.                                                             *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Workers, Fibers, Jobs,
  Retries,  \* how often a job may come back out of the dead-task store
  Nobody,   \* no worker; also no id and no fiber
  KillMax, CrashMax, FailMax, TimeoutMax

VARIABLES
  task,    \* WAL entries: [now, disk] as in BackendSpec
  at,      \* the worker whose file holds a task, or Nobody
  used,    \* ids ever made
  up,      \* workers that run
  ready,   \* per worker: ids in memory that no fiber has taken
  pc, cur, \* per fiber: next step, and the id in hand
  holder,  \* the fiber that has the dead-task lock, or Nobody
  marked,  \* TRUE: the mark says that the last change was not finished
  live,    \* records that the live path shows
  inode,   \* what a host crash may make of the live inode's records: a set of sets
  former,  \* the same for the inode that the name may still lead to, {} if it cannot
  owed,    \* history: ids that the backend vouches for (BackendSpec)
  jobs,    \* history: jobs that some store has vouched for and nobody has finished
  over,    \* history: jobs that ran well once
  kills, crashes, fails, timeouts

wal == <<task, at, used>>
memory == <<up, ready, pc, cur>>
dlq == <<holder, marked, live, inode, former>>
promises == <<owed, jobs, over>>
budgets == <<kills, crashes, fails, timeouts>>
vars == <<task, at, used, up, ready, pc, cur, holder, marked, live, inode, former, owed, jobs,
          over, kills, crashes, fails, timeouts>>

Ids == Jobs \X (0..Retries)
Procs == Workers \X Fibers
Job(i) == i[1]
Next0(i) == <<i[1], i[2] + 1>>

\* The dead-task store as BackendSpec sees it.
Possible == inode \cup former
DeadMap == [i \in Ids |-> [now |-> i \in live, disk |-> {(i \in s) : s \in Possible}]]
Backend == INSTANCE BackendSpec WITH dead <- DeadMap
BackendIsKept == Backend!Spec

InDead(i) == \A s \in Possible : i \in s
Safe(i) == task[i].disk = {TRUE} \/ InDead(i)

Init ==
  /\ task = [i \in Ids |-> [now |-> FALSE, disk |-> {FALSE}]]
  /\ at = [i \in Ids |-> Nobody]
  /\ used = {}
  /\ up = Workers
  /\ ready = [w \in Workers |-> {}]
  /\ pc = [p \in Procs |-> "idle"]
  /\ cur = [p \in Procs |-> Nobody]
  /\ holder = Nobody /\ marked = FALSE
  /\ live = {} /\ inode = {{}} /\ former = {}
  /\ owed = {} /\ jobs = {} /\ over = {}
  /\ kills = 0 /\ crashes = 0 /\ fails = 0 /\ timeouts = 0

Goto(p, where) == pc' = [pc EXCEPT ![p] = where]
Rest(p) == Goto(p, "idle") /\ cur' = [cur EXCEPT ![p] = Nobody]
Idle(p) == p[1] \in up /\ pc[p] = "idle"
Keep(w, i) == ready' = [ready EXCEPT ![w] = @ \cup {i}]

-----------------------------------------------------------------------------
(***************************************************************************)
(* The WAL.  Fibers of a worker share its file.                            *)
(***************************************************************************)
Shown(i) == task' = [task EXCEPT ![i] = [now |-> TRUE, disk |-> @.disk \cup {TRUE}]]
Hidden(i) == task' = [task EXCEPT ![i] = [now |-> FALSE, disk |-> @.disk \cup {FALSE}]]

\* U1: enqueueing writes, then schedules.
AppendNew(p, j) ==
  LET i == <<j, 0>>
  IN  /\ Idle(p) /\ i \notin used
      /\ used' = used \cup {i} /\ Shown(i) /\ at' = [at EXCEPT ![i] = p[1]]
      /\ Keep(p[1], i)
      /\ UNCHANGED <<up, pc, cur, dlq, promises, budgets>>

\* The record of an id that ran, or that the dead-task store has, is removed.
AppendRemoval(p) ==
  /\ pc[p] = "remove"
  /\ Hidden(cur[p]) /\ at' = [at EXCEPT ![cur[p]] = Nobody]
  /\ owed' = IF InDead(cur[p]) THEN owed ELSE owed \ {cur[p]}
  /\ Rest(p)
  /\ UNCHANGED <<used, up, ready, dlq, jobs, over, budgets>>

\* What one worker's file holds, or held and has no owner since its removal.
Mine(w) == {i \in used : at[i] = w \/ (at[i] = Nobody /\ ~task[i].now)}
Durable(w) ==
  LET held == {i \in used : at[i] = w}
  IN  /\ task' = [i \in Ids |-> IF i \in Mine(w) THEN [task[i] EXCEPT !.disk = {task[i].now}]
                               ELSE task[i]]
      /\ owed' = owed \cup held
      /\ jobs' = (jobs \cup {Job(i) : i \in held}) \ over

\* The batch is due, or somebody asks for it.
FsyncWal(w) ==
  /\ w \in up
  /\ \E i \in Mine(w) : task[i].disk # {task[i].now}
  /\ Durable(w)
  /\ UNCHANGED <<at, used, memory, dlq, over, budgets>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The queue.  A run ends well or not; how often it is tried is Queue's.   *)
(* Taking a task, running it and its end are one step: nobody else sees    *)
(* them, and who dies in between might as well have died before.           *)
(***************************************************************************)
Run(p, i, next) ==
  /\ Idle(p) /\ i \in ready[p[1]]
  /\ ready' = [ready EXCEPT ![p[1]] = @ \ {i}]
  /\ Goto(p, next) /\ cur' = [cur EXCEPT ![p] = i]

RunOk(p, i) ==
  /\ Run(p, i, "remove")
  /\ jobs' = jobs \ {Job(i)} /\ over' = over \cup {Job(i)}
  /\ UNCHANGED <<wal, up, dlq, owed, budgets>>

RunFails(p, i) ==
  /\ Run(p, i, "add")
  /\ UNCHANGED <<wal, up, dlq, promises, budgets>>

\* Retry of a dead task: the successor is written, made durable, and only then the old one removed.
\* It is scheduled at once: whoever runs it meanwhile runs it once.
AppendSuccessor(p, i) ==
  LET new == Next0(i)
  IN  /\ Idle(p) /\ i[2] < Retries /\ i \in live /\ new \notin used
      /\ used' = used \cup {new} /\ Shown(new) /\ at' = [at EXCEPT ![new] = p[1]]
      /\ Keep(p[1], new)
      /\ Goto(p, "sync") /\ cur' = [cur EXCEPT ![p] = i]
      /\ UNCHANGED <<up, dlq, promises, budgets>>

FsyncSuccessor(p) ==
  /\ pc[p] = "sync"
  /\ Durable(p[1])
  /\ Goto(p, "drop")
  /\ UNCHANGED <<at, used, up, ready, cur, dlq, over, budgets>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The dead-task store.  "add" and "drop" are calls; what follows happens  *)
(* under the lock.                                                         *)
(***************************************************************************)
\* Whoever finds the mark set republishes before anything else (D32).
LockTry(p) ==
  /\ pc[p] \in {"add", "drop"} /\ holder = Nobody
  /\ holder' = p /\ marked' = TRUE
  /\ Goto(p, CASE pc[p] = "drop" -> "drop.RenameStaging"
               [] pc[p] = "add" /\ marked -> "republish.RenameStaging"
               [] OTHER -> "add.AppendRecord")
  /\ UNCHANGED <<wal, up, ready, cur, live, inode, former, promises, budgets>>

\* D14: changes nothing; the task stays in the WAL, the dead task where it is.
TimesOut(p) ==
  /\ pc[p] \in {"add", "drop"} /\ holder \notin {Nobody, p} /\ timeouts < TimeoutMax
  /\ timeouts' = timeouts + 1
  /\ Rest(p)
  /\ UNCHANGED <<wal, up, ready, dlq, promises, kills, crashes, fails>>

\* The copy is whole and durable, and takes the live file's place.
RenameStaging(p) ==
  LET dropping == pc[p] = "drop.RenameStaging"
      kept == IF dropping THEN live \ {cur[p]} ELSE live
  IN  /\ pc[p] \in {"republish.RenameStaging", "drop.RenameStaging"}
      /\ live' = kept /\ inode' = {kept} /\ former' = Possible
      /\ owed' = IF dropping /\ task[cur[p]].disk # {TRUE} THEN owed \ {cur[p]} ELSE owed
      /\ Goto(p, IF dropping THEN "drop.FsyncDir" ELSE "republish.FsyncDir")
      /\ UNCHANGED <<wal, up, ready, cur, holder, marked, jobs, over, budgets>>

FsyncDir(p) ==
  /\ pc[p] \in {"republish.FsyncDir", "drop.FsyncDir"}
  /\ former' = {}
  /\ Goto(p, IF pc[p] = "drop.FsyncDir" THEN "drop.Unlock" ELSE "add.AppendRecord")
  /\ UNCHANGED <<wal, up, ready, cur, holder, marked, live, inode, promises, budgets>>

AppendRecord(p) ==
  /\ pc[p] = "add.AppendRecord"
  /\ live' = live \cup {cur[p]}
  /\ inode' = inode \cup {s \cup {cur[p]} : s \in inode}
  /\ Goto(p, "add.FsyncData")
  /\ UNCHANGED <<wal, up, ready, cur, holder, marked, former, promises, budgets>>

FsyncData(p) ==
  /\ pc[p] = "add.FsyncData"
  /\ inode' = {live}
  /\ Goto(p, "add.Unlock")
  /\ UNCHANGED <<wal, up, ready, cur, holder, marked, live, former, promises, budgets>>

\* The end of a call that went well: acknowledged with the mark cleared and the lock free.
Unlock(p) ==
  /\ pc[p] \in {"add.Unlock", "drop.Unlock"}
  /\ holder' = Nobody /\ marked' = FALSE
  /\ IF pc[p] = "add.Unlock"
     THEN /\ owed' = owed \cup {cur[p]}
          /\ jobs' = (jobs \cup {Job(cur[p])}) \ over
          /\ Goto(p, "remove") /\ UNCHANGED cur
     ELSE Rest(p) /\ UNCHANGED <<owed, jobs>>
  /\ UNCHANGED <<wal, up, ready, live, inode, former, over, budgets>>

\* Any step under the lock fails: the mark stays, the lock goes, the caller gets an error.  What an
\* append or a rename has done may show or not; a failed fsync may have made durable what it likes
\* (any of inode), and nobody fsyncs that inode again, since the next holder republishes (W9).
Inside(p) == holder = p
StoreFails(p) ==
  /\ Inside(p) /\ pc[p] \notin {"add.Unlock", "drop.Unlock"} /\ fails < FailMax
  /\ fails' = fails + 1
  /\ holder' = Nobody
  /\ Rest(p)
  /\ UNCHANGED <<wal, up, ready, marked, live, inode, former, promises, kills, crashes, timeouts>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Starts, deaths, crashes.                                                *)
(***************************************************************************)
Take(w) ==
  /\ w \notin up
  /\ up' = up \cup {w}
  /\ LET found == {i \in Ids : task[i].now /\ at[i] = Nobody}
     IN  /\ at' = [i \in Ids |-> IF i \in found THEN w ELSE at[i]]
         /\ ready' = [ready EXCEPT ![w] = found]
  /\ UNCHANGED <<task, used, pc, cur, dlq, promises, budgets>>

\* The kernel keeps what it has, and frees the lock; the mark stays as it was.
Kill(w) ==
  /\ w \in up /\ kills < KillMax
  /\ kills' = kills + 1
  /\ up' = up \ {w}
  /\ at' = [i \in Ids |-> IF at[i] = w THEN Nobody ELSE at[i]]
  /\ ready' = [ready EXCEPT ![w] = {}]
  /\ pc' = [p \in Procs |-> IF p[1] = w THEN "idle" ELSE pc[p]]
  /\ cur' = [p \in Procs |-> IF p[1] = w THEN Nobody ELSE cur[p]]
  /\ holder' = IF holder # Nobody /\ holder[1] = w THEN Nobody ELSE holder
  /\ UNCHANGED <<task, used, marked, live, inode, former, promises, crashes, fails, timeouts>>

\* The mark of another boot is not trusted: as good as set.
HostCrash ==
  /\ crashes < CrashMax
  /\ crashes' = crashes + 1
  /\ \E there \in SUBSET used :
       /\ \A i \in used : (i \in there) \in task[i].disk
       /\ task' = [i \in Ids |-> [now |-> i \in there, disk |-> {i \in there}]]
  /\ \E s \in Possible : live' = s /\ inode' = {s}
  /\ former' = {}
  /\ up' = {} /\ holder' = Nobody /\ marked' = TRUE
  /\ at' = [i \in Ids |-> Nobody]
  /\ ready' = [w \in Workers |-> {}]
  /\ pc' = [p \in Procs |-> "idle"]
  /\ cur' = [p \in Procs |-> Nobody]
  /\ UNCHANGED <<used, promises, kills, fails, timeouts>>

\* Nothing left to do; keeps deadlock checking on.
Done ==
  /\ up = Workers
  /\ \A p \in Procs : pc[p] = "idle"
  /\ \A w \in Workers : ready[w] = {}
  /\ UNCHANGED vars

Next ==
  \/ \E w \in Workers : FsyncWal(w) \/ Take(w) \/ Kill(w)
  \/ \E p \in Procs, j \in Jobs : AppendNew(p, j)
  \/ \E p \in Procs, i \in Ids : RunOk(p, i) \/ RunFails(p, i) \/ AppendSuccessor(p, i)
  \/ \E p \in Procs : \/ AppendRemoval(p) \/ FsyncSuccessor(p)
                      \/ LockTry(p) \/ TimesOut(p) \/ RenameStaging(p) \/ FsyncDir(p)
                      \/ AppendRecord(p) \/ FsyncData(p) \/ Unlock(p) \/ StoreFails(p)
  \/ HostCrash
  \/ Done

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
  /\ task \in [Ids -> [now : BOOLEAN, disk : SUBSET BOOLEAN \ {{}}]]
  /\ at \in [Ids -> Workers \cup {Nobody}]
  /\ holder \in Procs \cup {Nobody} /\ marked \in BOOLEAN
  /\ live \subseteq used /\ inode # {}

\* Every job that a store has vouched for is in one of them in every durable state (U3, U4).
NoGivenUpLoss == \A j \in jobs : \E i \in Ids : Job(i) = j /\ Safe(i)

\* D13, D15: one fiber at a time is inside, and it has the lock.
Working(p) == pc[p] \in {"republish.RenameStaging", "republish.FsyncDir",
                         "drop.RenameStaging", "drop.FsyncDir", "drop.Unlock",
                         "add.AppendRecord", "add.FsyncData", "add.Unlock"}
MutualExclusion == \A p \in Procs : Working(p) <=> holder = p

\* D32: a mark that is not set promises that everything is durable.
CleanMeansDurable == ~marked => inode = {live} /\ former = {}

\* A process crash loses no task that memory knows (W8).
MemoryIsBacked == \A w \in Workers : \A i \in ready[w] : task[i].now /\ at[i] = w
=============================================================================

--------------------------------- MODULE Sql ---------------------------------
(***************************************************************************)
(* Tasks and dead tasks in a database that several workers share: claims,  *)
(* heartbeats, sweeps, and the fence.  Requirements Q1-Q11, U3, U7.        *)
(*                                                                         *)
(* The database commits a transaction as a whole or not at all, and what   *)
(* it committed outlives every crash; that is assumed, for a server with   *)
(* its defaults and for SQLite with synchronous = FULL.  So a call on the  *)
(* backend is one step where it is one transaction.  What can go wrong     *)
(* around a commit:                                                        *)
(*   before it      Kill, or an error: nothing happened, no step           *)
(*   after it       the answer is lost (Lost below): the database has the  *)
(*                  change, the worker sees an error and does not know     *)
(*   in between     a claim and a sweep have two steps, Begin and Commit,  *)
(*                  because they read before they write: what others may   *)
(*                  do between the two depends on which rows are locked.   *)
(*                  A kill, a lost connection or a restart of the server   *)
(*                  in between rolls back (Kill, Rollback).                *)
(*                                                                         *)
(* Time is relative to the database's clock.  age[w] is how long ago w's   *)
(* last heartbeat is, wait[i] how long until i is due; Advance moves both, *)
(* at any speed, so that a worker can be slow and alive.  JumpBack sets    *)
(* the database's clock back.  off[w] is how far w's own clock is ahead,   *)
(* and may change (Drift): producers say by their own clock when a task is *)
(* due, and nothing else may depend on it.                                 *)
(*                                                                         *)
(* A worker's name is fresh whenever it registers.  Here a name may come   *)
(* again when no row has it any more, which nobody can tell from a fresh   *)
(* one: tokens of the earlier registration are dropped with it (Rejoin).   *)
(*                                                                         *)
(* Left out, with the reason: order within a batch (a claim takes any      *)
(* batch; "oldest first" is a matter of the query, tested), payloads other *)
(* than readable or not, removal of dead tasks and their retry (Queue has  *)
(* them; each is one call on this store), fibers (tokens belong to the     *)
(* process, and its queue takes an id in hand once; a run that goes on     *)
(* over Rejoin and a new claim of its task counts as the run of that       *)
(* claim), the pause of claims after a failed heartbeat (the claim itself  *)
(* looks at the row).                                                      *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Workers, Ids,
  Nobody,
  Bad,        \* ids whose payload cannot be decoded (Q7)
  Killers,    \* ids that kill their worker whenever they run (U7)
  Survivor,   \* a worker that no kill and no stop takes, or Nobody
  Threshold,  \* a heartbeat older than this is stale
  Delay,      \* of a delayed task
  ClaimMax,   \* claims in a row without an end, until a task is dead
  Batch,      \* tasks in one claim
  TryMax,     \* attempts that are counted at all, and the largest limit
  KillMax,  \* kills and graceful stops together
  LossMax, DriftMax, JumpMax, ChangeMax  \* budgets, in the guards (liveness)

VARIABLES
  \* committed rows
  here, owner, n, wait, tries,  \* tasks: there or not, owner, claim count, time to due, attempts
  dead,                         \* dead tasks
  listed, age,                  \* workers: there or not, age of the heartbeat
  \* workers
  up, held, want,  \* held[w][i]: claim count of w's token, 0 if none; want: what it is about to do
  unsure,          \* a call that may have given w tasks ended without an answer
  open,            \* the transaction that is open: [kind, ids, victims]
  limit,           \* attempts before a task is given up; may be changed
  off,             \* clocks
  used, owed, done,  \* history: ids ever made; vouched for and not done; finished
  kills, losses, drifts, jumps, changes

rows == <<here, owner, n, wait, tries, dead>>
registry == <<listed, age>>
memory == <<up, held, want, unsure, open>>
world == <<limit, off>>
history == <<used, owed, done>>
budgets == <<kills, losses, drifts, jumps, changes>>
vars == <<here, owner, n, wait, tries, dead, listed, age, up, held, want, unsure, open,
          limit, off, used, owed, done, kills, losses, drifts, jumps, changes>>

NoTx == [kind |-> "none", ids |-> {}, victims |-> {}]
AgeMax == Threshold + 1
Wants == {"none", "run", "finish", "retry", "bury"}

\* Change is durable when it is committed: the sets of BackendSpec hold one value.
Entry(b) == [now |-> b, disk |-> {b}]
Backend == INSTANCE BackendSpec WITH
  task <- [i \in Ids |-> Entry(i \in here)],
  dead <- [i \in Ids |-> Entry(i \in dead)]
BackendIsKept == Backend!Spec

TypeOK ==
  /\ here \subseteq Ids /\ dead \subseteq Ids
  /\ owner \in [Ids -> Workers \cup {Nobody}]
  /\ n \in [Ids -> 0..ClaimMax]
  /\ wait \in [Ids -> 0..Delay + 1] /\ tries \in [Ids -> 0..TryMax]
  /\ listed \subseteq Workers /\ age \in [Workers -> 0..AgeMax]
  /\ up \subseteq Workers /\ unsure \subseteq Workers
  /\ held \in [Workers -> [Ids -> 0..ClaimMax]]
  /\ want \in [Workers -> [Ids -> Wants]]
  /\ open \in [Workers -> [kind : {"none", "claim", "sweep"}, ids : SUBSET Ids,
                           victims : SUBSET Workers]]
  /\ limit \in 1..TryMax /\ off \in [Workers -> 0..1]
  /\ used \subseteq Ids /\ owed \subseteq used /\ done \subseteq used

Init ==
  /\ here = {} /\ dead = {}
  /\ owner = [i \in Ids |-> Nobody]
  /\ n = [i \in Ids |-> 0] /\ wait = [i \in Ids |-> 0] /\ tries = [i \in Ids |-> 0]
  /\ listed = {} /\ age = [w \in Workers |-> 0]
  /\ up = {} /\ unsure = {}
  /\ held = [w \in Workers |-> [i \in Ids |-> 0]]
  /\ want = [w \in Workers |-> [i \in Ids |-> "none"]]
  /\ open = [w \in Workers |-> NoTx]
  /\ limit \in 1..TryMax /\ off = [w \in Workers |-> 0]
  /\ used = {} /\ owed = {} /\ done = {}
  /\ kills = 0 /\ losses = 0 /\ drifts = 0 /\ jumps = 0 /\ changes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* Locks.  An open claim holds the rows of its batch, and its worker's own *)
(* row against sweeps (FOR SHARE).  An open sweep holds its victims' rows. *)
(* Whoever finds a row locked waits, except where a clause says SKIP       *)
(* LOCKED.  In SQLite at most one writing transaction is open at a time:   *)
(* fewer behaviours of the same module.                                    *)
(***************************************************************************)
LockedIds == UNION {open[w].ids : w \in Workers}
Condemned == UNION {open[w].victims : w \in Workers}
Claiming == {w \in Workers : open[w].kind = "claim"}
Free(i) == i \notin LockedIds
Still(w) == w \in up /\ open[w] = NoTx
IsStale(w) == age[w] > Threshold

\* Rows of ids that leave the table hold nothing, so that equal states look equal.
Erase(is) ==
  /\ here' = here \ is
  /\ owner' = [i \in Ids |-> IF i \in is THEN Nobody ELSE owner[i]]
  /\ n' = [i \in Ids |-> IF i \in is THEN 0 ELSE n[i]]
  /\ wait' = [i \in Ids |-> IF i \in is THEN 0 ELSE wait[i]]
  /\ tries' = [i \in Ids |-> IF i \in is THEN 0 ELSE tries[i]]

Forget(w, i) ==
  /\ held' = [held EXCEPT ![w][i] = 0]
  /\ want' = [want EXCEPT ![w][i] = "none"]

-----------------------------------------------------------------------------
(***************************************************************************)
(* Workers register, send heartbeats, and leave (Q6).                      *)
(***************************************************************************)
\* A process that starts sweeps first.  If its name stands there still, that is its dead forerunner.
Start(w) ==
  /\ w \notin up /\ w \notin Condemned
  /\ w \in listed => IsStale(w)
  /\ \A i \in here : owner[i] = w => Free(i)
  /\ up' = up \cup {w} /\ listed' = listed \cup {w}
  /\ age' = [age EXCEPT ![w] = 0]
  /\ owner' = [i \in Ids |-> IF owner[i] = w THEN Nobody ELSE owner[i]]
  /\ UNCHANGED <<here, n, wait, tries, dead, held, want, unsure, open, world, history, budgets>>

\* A row that is stale and not swept yet is as good as new: what it owns is still its own.
Beat(w) ==
  /\ Still(w) /\ w \in listed /\ w \notin Condemned
  /\ age[w] > 0
  /\ age' = [age EXCEPT ![w] = 0]
  /\ UNCHANGED <<rows, listed, memory, world, history, budgets>>

\* The heartbeat finds no row: w was taken for dead.  A fresh name; its tokens are worth nothing.
Rejoin(w) ==
  /\ Still(w) /\ w \notin listed
  /\ listed' = listed \cup {w} /\ age' = [age EXCEPT ![w] = 0]
  /\ held' = [held EXCEPT ![w] = [i \in Ids |-> 0]]
  /\ want' = [want EXCEPT ![w] = [i \in Ids |-> "none"]]
  /\ unsure' = unsure \ {w}
  /\ UNCHANGED <<rows, up, open, world, history, budgets>>

\* After a call without an answer: what w owns and does not know of goes back.
Reconcile(w) ==
  LET unknown == {i \in here : owner[i] = w /\ held[w][i] = 0}
  IN  /\ Still(w) /\ w \in unsure
      /\ \A i \in unknown : Free(i)
      /\ owner' = [i \in Ids |-> IF i \in unknown THEN Nobody ELSE owner[i]]
      /\ unsure' = unsure \ {w}
      /\ UNCHANGED <<here, n, wait, tries, dead, registry, up, held, want, open, world, history,
                     budgets>>

\* A graceful stop: nothing runs any more.  What w owns goes back at once, uncounted (U7, Q10).
Stop(w) ==
  LET own == {i \in here : owner[i] = w}
  IN  /\ Still(w) /\ w # Survivor /\ w \notin Condemned
      /\ kills < KillMax /\ kills' = kills + 1
      /\ \A i \in own : Free(i)
      /\ owner' = [i \in Ids |-> IF i \in own THEN Nobody ELSE owner[i]]
      /\ n' = [i \in Ids |-> IF i \in own THEN n[i] - 1 ELSE n[i]]
      /\ listed' = listed \ {w} /\ up' = up \ {w} /\ unsure' = unsure \ {w}
      /\ held' = [held EXCEPT ![w] = [i \in Ids |-> 0]]
      /\ want' = [want EXCEPT ![w] = [i \in Ids |-> "none"]]
      /\ UNCHANGED <<here, wait, tries, dead, age, open, world, history,
                     losses, drifts, jumps, changes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A sweep orphans the tasks of stale workers, and their rows go with      *)
(* them, in one transaction.  Who sweeps is told by the database's clock.  *)
(***************************************************************************)
SweepBegin(w) ==
  LET victims == {v \in listed : IsStale(v) /\ v \notin Claiming /\ v \notin Condemned}
  IN  /\ Still(w) /\ victims # {}
      /\ open' = [open EXCEPT ![w] = [kind |-> "sweep", ids |-> {}, victims |-> victims]]
      /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>

SweepCommit(w) ==
  LET orphans == {i \in here : owner[i] \in open[w].victims}
  IN  /\ open[w].kind = "sweep"
      /\ \A i \in orphans : Free(i)
      /\ owner' = [i \in Ids |-> IF i \in orphans THEN Nobody ELSE owner[i]]
      /\ listed' = listed \ open[w].victims
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<here, n, wait, tries, dead, age, up, held, want, unsure, world, history,
                     budgets>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Enqueue (Q4).  An immediate task is its worker's own, if the worker has *)
(* a row, which is locked against sweeps meanwhile; else, and when it is   *)
(* delayed, it waits for a claim.  answered: whether the worker learns of  *)
(* the commit.                                                             *)
(***************************************************************************)
Loses == losses < LossMax /\ losses' = losses + 1
Answer(answered) == IF answered THEN UNCHANGED losses ELSE Loses

New(i) ==
  /\ i \notin used
  /\ used' = used \cup {i} /\ owed' = owed \cup {i} /\ here' = here \cup {i}
  /\ UNCHANGED <<tries, dead, done>>

EnqueueNow(w, i, answered) ==
  /\ Still(w) /\ w \in listed /\ w \notin Condemned
  /\ New(i) /\ Answer(answered)
  /\ owner' = [owner EXCEPT ![i] = w]
  /\ n' = [n EXCEPT ![i] = 1]
  /\ held' = [held EXCEPT ![w][i] = IF answered THEN 1 ELSE 0]
  /\ want' = [want EXCEPT ![w][i] = IF answered THEN "run" ELSE "none"]
  /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
  /\ UNCHANGED <<wait, registry, up, open, world, kills, drifts, jumps, changes>>

EnqueueUnowned(w, i) ==
  /\ Still(w) /\ w \notin listed
  /\ New(i)
  /\ UNCHANGED <<owner, n, wait, registry, memory, world, budgets>>

\* Due by the producer's clock: late or early by what that is off.
EnqueueLater(w, i) ==
  /\ Still(w) /\ Delay > 0
  /\ New(i)
  /\ wait' = [wait EXCEPT ![i] = Delay + off[w]]
  /\ UNCHANGED <<owner, n, registry, memory, world, budgets>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Claim (Q5): due tasks without an owner, a bounded batch, in one         *)
(* statement.  Its worker must have a fresh row.  A task that was claimed  *)
(* too often without an end goes to the dead ones, in the same transaction *)
(* (U7): in one of its own it might come too late again and again, when    *)
(* every heartbeat does (SqlWornLater).                                    *)
(***************************************************************************)
IsDue(i) == i \in here /\ owner[i] = Nobody /\ wait[i] = 0
MayClaim(w) == w \in listed /\ ~IsStale(w) /\ w \notin Condemned

ClaimBegin(w, is) ==
  /\ Still(w) /\ MayClaim(w) /\ w \notin unsure
  /\ is # {} /\ Cardinality(is) <= Batch
  /\ \A i \in is : IsDue(i) /\ Free(i) /\ held[w][i] = 0
  /\ open' = [open EXCEPT ![w] = [kind |-> "claim", ids |-> is, victims |-> {}]]
  /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>

ClaimCommit(w, answered) ==
  LET is == open[w].ids
      worn == {i \in is : n[i] >= ClaimMax}
      mine == is \ worn
  IN  /\ open[w].kind = "claim" /\ Answer(answered)
      /\ here' = here \ worn /\ dead' = dead \cup worn
      /\ owner' = [i \in Ids |-> IF i \in mine THEN w ELSE owner[i]]
      /\ n' = [i \in Ids |-> IF i \in mine THEN n[i] + 1 ELSE IF i \in worn THEN 0 ELSE n[i]]
      /\ tries' = [i \in Ids |-> IF i \in worn THEN 0 ELSE tries[i]]
      /\ held' = [held EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in mine THEN n[i] + 1 ELSE @[i]]]
      /\ want' = [want EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in mine
                          THEN IF i \in Bad THEN "bury" ELSE "run" ELSE @[i]]]
      /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<wait, registry, up, world, history, kills, drifts, jumps, changes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A run and its end.  Every end is fenced: the row must still have this   *)
(* worker as its owner and the claim count of its token (Q6).              *)
(***************************************************************************)
RunOk(w, i) ==
  /\ Still(w) /\ want[w][i] = "run" /\ i \notin Killers
  /\ want' = [want EXCEPT ![w][i] = "finish"]
  /\ UNCHANGED <<rows, registry, up, held, unsure, open, world, history, budgets>>

RunFails(w, i) ==
  /\ Still(w) /\ want[w][i] = "run" /\ i \notin Killers
  /\ want' = [want EXCEPT ![w][i] =
       IF i \in here /\ tries[i] + 1 < limit THEN "retry" ELSE "bury"]
  /\ UNCHANGED <<rows, registry, up, held, unsure, open, world, history, budgets>>

Fence(w, i) == i \in here /\ owner[i] = w /\ n[i] = held[w][i]
Ending(w, i, how) == Still(w) /\ want[w][i] = how /\ Free(i)

\* When the answer is lost, the end is tried again, and then refused.  A burial is not: see Leave.
After(w, i, answered) ==
  /\ Answer(answered)
  /\ IF answered THEN Forget(w, i) ELSE UNCHANGED <<held, want>>

Finish(w, i, answered) ==
  /\ Ending(w, i, "finish") /\ Fence(w, i)
  /\ Erase({i}) /\ owed' = owed \ {i} /\ done' = done \cup {i}
  /\ After(w, i, answered)
  /\ UNCHANGED <<dead, registry, up, unsure, open, world, used, kills, drifts, jumps, changes>>

\* U2: payload and time are replaced and the task is given back, in one statement.
Retry(w, i, answered) ==
  /\ Ending(w, i, "retry") /\ Fence(w, i)
  /\ owner' = [owner EXCEPT ![i] = Nobody]
  /\ n' = [n EXCEPT ![i] = 0]
  /\ wait' = [wait EXCEPT ![i] = Delay]
  /\ tries' = [tries EXCEPT ![i] = @ + 1]
  /\ After(w, i, answered)
  /\ UNCHANGED <<here, dead, registry, up, unsure, open, world, history,
                 kills, drifts, jumps, changes>>

\* Q7: into the dead tasks and out of the tasks in one transaction; unreadable ones as well.
Bury(w, i, answered) ==
  /\ Ending(w, i, "bury") /\ Fence(w, i)
  /\ Erase({i}) /\ dead' = dead \cup {i}
  /\ Answer(answered) /\ Forget(w, i)
  /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
  /\ UNCHANGED <<registry, up, open, world, history, kills, drifts, jumps, changes>>

\* The burial fails, and the queue leaves the task to the store (U3).  The worker lives on, so it is
\* given back like what a lost answer gave: no restart is waited for.
Leave(w, i) ==
  /\ Still(w) /\ want[w][i] = "bury" /\ Free(i) /\ Fence(w, i) /\ Loses
  /\ Forget(w, i)
  /\ unsure' = unsure \cup {w}
  /\ UNCHANGED <<rows, registry, up, open, world, history, kills, drifts, jumps, changes>>

\* ClaimLost: another worker has it by now, or has ended it, or an end of ours had no answer.
Refused(w, i) ==
  /\ Still(w) /\ want[w][i] \in {"finish", "retry", "bury"} /\ Free(i)
  /\ ~Fence(w, i)
  /\ Forget(w, i)
  /\ UNCHANGED <<rows, registry, up, unsure, open, world, history, budgets>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Deaths, errors, clocks, and people.                                     *)
(***************************************************************************)
\* An open transaction is rolled back by the server; the worker's row stays until it is stale.
Die(w) ==
  /\ up' = up \ {w} /\ unsure' = unsure \ {w}
  /\ open' = [open EXCEPT ![w] = NoTx]
  /\ held' = [held EXCEPT ![w] = [i \in Ids |-> 0]]
  /\ want' = [want EXCEPT ![w] = [i \in Ids |-> "none"]]
  /\ UNCHANGED <<rows, registry, world, history>>

Kill(w) ==
  /\ w \in up /\ w # Survivor /\ kills < KillMax
  /\ kills' = kills + 1
  /\ Die(w)
  /\ UNCHANGED <<losses, drifts, jumps, changes>>

\* Not in any budget: only the claim count ends it (U7).
RunKills(w, i) ==
  /\ Still(w) /\ want[w][i] = "run" /\ i \in Killers /\ w # Survivor
  /\ Die(w)
  /\ UNCHANGED budgets

\* The connection breaks, or the server restarts, before the commit.
Rollback(w) ==
  /\ w \in up /\ open[w] # NoTx /\ Loses
  /\ open' = [open EXCEPT ![w] = NoTx]
  /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history,
                 kills, drifts, jumps, changes>>

Advance ==
  /\ \/ \E w \in listed : age[w] < AgeMax
     \/ \E i \in here : wait[i] > 0
  /\ age' = [w \in Workers |-> IF w \in listed /\ age[w] < AgeMax THEN age[w] + 1 ELSE age[w]]
  /\ wait' = [i \in Ids |-> IF wait[i] > 0 THEN wait[i] - 1 ELSE 0]
  /\ UNCHANGED <<here, owner, n, tries, dead, listed, memory, world, history, budgets>>

\* The database's clock is set back: heartbeats look younger, what is due is due later.
JumpBack ==
  /\ jumps < JumpMax
  /\ jumps' = jumps + 1
  /\ age' = [w \in Workers |-> IF age[w] > 0 THEN age[w] - 1 ELSE 0]
  /\ wait' = [i \in Ids |-> IF i \in here /\ owner[i] = Nobody /\ wait[i] <= Delay /\ Free(i)
                            THEN wait[i] + 1 ELSE wait[i]]
  /\ UNCHANGED <<here, owner, n, tries, dead, listed, memory, world, history,
                 kills, losses, drifts, changes>>

Drift(w) ==
  /\ drifts < DriftMax
  /\ drifts' = drifts + 1
  /\ off' = [off EXCEPT ![w] = 1 - @]
  /\ UNCHANGED <<rows, registry, memory, limit, history, kills, losses, jumps, changes>>

\* A deployment changes the limit of retries; dead tasks are none of its business (Q7).
ChangeLimit ==
  /\ changes < ChangeMax
  /\ changes' = changes + 1
  /\ limit' \in 1..TryMax /\ limit' # limit
  /\ UNCHANGED <<rows, registry, memory, off, history, kills, losses, drifts, jumps>>

\* Nothing left to do; keeps deadlock checking on.
Done ==
  /\ here = {} /\ \A w \in up : open[w] = NoTx
  /\ UNCHANGED vars

Step(w) == \E i \in Ids : \/ RunOk(w, i) \/ RunFails(w, i) \/ RunKills(w, i) \/ Refused(w, i)
                          \/ \E answered \in BOOLEAN : \/ Finish(w, i, answered)
                                                       \/ Retry(w, i, answered)
                                                       \/ Bury(w, i, answered)
Claim(w) == \E is \in SUBSET Ids : ClaimBegin(w, is)
Commit(w) == SweepCommit(w) \/ \E answered \in BOOLEAN : ClaimCommit(w, answered)
Next ==
  \/ \E w \in Workers : \/ Start(w) \/ Beat(w) \/ Rejoin(w) \/ Reconcile(w) \/ Stop(w)
                        \/ SweepBegin(w) \/ Kill(w) \/ Rollback(w) \/ Drift(w)
                        \/ Claim(w) \/ Commit(w) \/ Step(w)
  \/ \E w \in Workers, i \in Ids : \/ EnqueueUnowned(w, i) \/ EnqueueLater(w, i) \/ Leave(w, i)
                                   \/ \E answered \in BOOLEAN : EnqueueNow(w, i, answered)
  \/ Advance \/ JumpBack \/ ChangeLimit
  \/ Done

(***************************************************************************)
(* Fairness: time goes on; a worker that lives goes on with its calls.     *)
(* None for stops, people and faults.  A worker is not promised to be      *)
(* quick: its heartbeat may come too late again and again.                 *)
(***************************************************************************)
Fairness ==
  /\ WF_vars(Advance)
  /\ \A w \in Workers :
       /\ WF_vars(Start(w)) /\ WF_vars(Rejoin(w)) /\ WF_vars(Reconcile(w))
       /\ SF_vars(Beat(w)) /\ SF_vars(SweepBegin(w)) /\ SF_vars(Claim(w))
       /\ WF_vars(Commit(w)) /\ SF_vars(Step(w))
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
\* No task is lost: what a transaction has taken in is in one table or the other until it is done.
NoTaskLost == owed \subseteq here \cup dead

\* One end: a task is waiting, or dead, or done, and never two of them (Q7).
OneEnd == here \cap dead = {} /\ here \cap done = {} /\ dead \cap done = {}

\* An owner has a row among the workers, so that a sweep can find it.
OwnersAreListed == \A i \in here : owner[i] \in listed \cup {Nobody}

\* A worker that has its row runs only what it owns: no two live owners (Q5, Q10).
Runs(w, i) == w \in up /\ w \in listed /\ want[w][i] = "run"
RunnersOwn == \A w \in Workers, i \in Ids : Runs(w, i) => owner[i] = w /\ n[i] = held[w][i]
NoTwoOwners == \A v, w \in Workers, i \in Ids : v # w => ~(Runs(v, i) /\ Runs(w, i))

\* Nobody runs a dead task, whatever the limit is now.
DeadStayDead == \A w \in Workers, i \in Ids : Runs(w, i) => i \notin dead

\* A delayed task has no owner before its time.
NotEarly == \A i \in here : owner[i] # Nobody => wait[i] = 0

\* What a worker owns goes from it by its own doing, or because its heartbeat was found stale.
Own(w) == held'[w] # held[w] \/ losses' # losses \/ (w \in unsure /\ w \notin unsure')
          \/ (w \in up) # (w \in up')
OnlyStaleAreRobbed ==
  [][/\ \A v, w \in Workers :
          w \in open'[v].victims /\ w \notin open[v].victims => IsStale(w)
     /\ \A w \in Workers, i \in Ids :
          owner[i] = w /\ owner'[i] # w => w \in Condemned \/ Own(w)]_vars

\* Liveness: every due task is claimed, and every task comes to an end, while somebody lives.
EveryDueIsClaimed == \A i \in Ids : IsDue(i) ~> ~IsDue(i)
EveryTaskSettles == \A i \in Ids : i \in here ~> i \notin here
=============================================================================

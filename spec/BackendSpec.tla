----------------------------- MODULE BackendSpec -----------------------------
(***************************************************************************)
(* What a caller may rely on from a whole backend, in one page: tasks      *)
(* waiting to run and dead tasks, whatever stores them.  The disk backend  *)
(* refines this module, and an SQL backend must (there a change and its    *)
(* durability are one step, and the sets below never hold two values).     *)
(*                                                                         *)
(* An entry is [now |-> whether the running system shows it,               *)
(*              disk |-> what a host crash may make of that].              *)
(* An operation that has begun, or has failed, without an acknowledgement  *)
(* may already show, and may be found after a crash or not: so it is the   *)
(* same abstract step as one that succeeds.  What makes an acknowledgement *)
(* worth something is `owed`: the ids that the backend has vouched for.    *)
(*                                                                         *)
(* A process crash has no action here: it changes nothing that a caller    *)
(* may rely on (W3, W8).  Left out: payloads, times, order, which worker   *)
(* holds a task, and the reading operations, which change nothing.         *)
(***************************************************************************)
EXTENDS FiniteSets

CONSTANT Ids
VARIABLES
  task,  \* tasks waiting to run
  dead,  \* dead tasks
  owed   \* ids that no crash may lose from both (D17, U3)

vars == <<task, dead, owed>>

Absent == [now |-> FALSE, disk |-> {FALSE}]
Entries == [now : BOOLEAN, disk : SUBSET BOOLEAN \ {{}}]

\* How an entry may change: shown or hidden, with either outcome possible until it is made firm.
Put(e) == [now |-> TRUE, disk |-> e.disk \cup {TRUE}]
Cut(e) == [now |-> FALSE, disk |-> e.disk \cup {FALSE}]
Firm(e) == [e EXCEPT !.disk = {e.now}]

\* An id is safe when every host crash leaves it in one store or the other.
Safe(i) == task[i].disk = {TRUE} \/ dead[i].disk = {TRUE}

TypeOK == task \in [Ids -> Entries] /\ dead \in [Ids -> Entries] /\ owed \subseteq Ids

\* The promise itself: the one thing that callers build on.
Promise == \A i \in owed : Safe(i)

-----------------------------------------------------------------------------
Init ==
  /\ task = [i \in Ids |-> Absent]
  /\ dead = [i \in Ids |-> Absent]
  /\ owed = {}

\* add_task: acknowledged when the kernel has it; a retry of an id that is there changes nothing.
AddTask(i) ==
  /\ task' = [task EXCEPT ![i] = IF @.now THEN @ ELSE Put(@)]
  /\ UNCHANGED <<dead, owed>>

\* remove_task: the caller is done with the id, unless the dead-task store has it for good.
RemoveTask(i) ==
  /\ task' = [task EXCEPT ![i] = Cut(@)]
  /\ owed' = IF dead[i].disk = {TRUE} THEN owed ELSE owed \ {i}
  /\ UNCHANGED dead

\* sync, or the system's own write-back: some entries become firm.  What sync was asked for is owed.
Sync(is, vouched) ==
  /\ task' = [i \in Ids |-> IF i \in is THEN Firm(task[i]) ELSE task[i]]
  /\ vouched \subseteq {i \in is : task[i].now}
  /\ owed' = owed \cup vouched
  /\ UNCHANGED dead

\* add_dead_task while it is under way, or after it failed half way (D19).
TryDead(i) ==
  /\ dead' = [dead EXCEPT ![i] = Put(@)]
  /\ UNCHANGED <<task, owed>>

\* add_dead_task acknowledged: durable at once (D17).
AddDead(i) ==
  /\ dead' = [dead EXCEPT ![i] = Firm(Put(@))]
  /\ owed' = owed \cup {i}
  /\ UNCHANGED task

\* remove_dead_tasks: from its first change on the caller has given the ids up.
DropDead(is) ==
  /\ dead' \in {[i \in Ids |-> IF i \notin is THEN dead[i] ELSE IF firm THEN Firm(Cut(dead[i]))
                               ELSE Cut(dead[i])] : firm \in BOOLEAN}
  /\ owed' = {i \in owed : i \notin is \/ task[i].disk = {TRUE}}
  /\ UNCHANGED task

\* The next writer makes firm, one way or the other, what an interrupted operation left (D32).
SettleDead(is) ==
  /\ dead' = [i \in Ids |-> IF i \in is THEN Firm(dead[i]) ELSE dead[i]]
  /\ UNCHANGED <<task, owed>>

\* What one transaction of a database does: several of these at once, durable when they show.
Transact(adds, moves, removes) ==
  /\ adds \cap (moves \cup removes) = {} /\ moves \cap removes = {}
  /\ task' = [i \in Ids |-> IF i \in adds THEN Firm(Put(task[i]))
                           ELSE IF i \in moves \cup removes THEN Firm(Cut(task[i])) ELSE task[i]]
  /\ dead' = [i \in Ids |-> IF i \in moves THEN Firm(Put(dead[i])) ELSE dead[i]]
  /\ owed' = (owed \cup adds \cup moves) \ {i \in removes : dead[i].disk # {TRUE}}

\* Each entry becomes one of the things that it may become.
Found(b) == [now |-> b, disk |-> {b}]
HostCrash ==
  /\ \E t, d \in [Ids -> BOOLEAN] :
       /\ \A i \in Ids : t[i] \in task[i].disk /\ d[i] \in dead[i].disk
       /\ task' = [i \in Ids |-> Found(t[i])]
       /\ dead' = [i \in Ids |-> Found(d[i])]
  /\ UNCHANGED owed

Next ==
  \/ \E i \in Ids : AddTask(i) \/ RemoveTask(i) \/ TryDead(i) \/ AddDead(i)
  \/ \E is \in SUBSET Ids : DropDead(is) \/ SettleDead(is)
  \/ \E is, vouched \in SUBSET Ids : Sync(is, vouched)
  \/ \E adds, moves, removes \in SUBSET Ids : Transact(adds, moves, removes)
  \/ HostCrash

Spec == Init /\ [][Next]_vars
=============================================================================

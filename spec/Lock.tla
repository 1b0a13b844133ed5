-------------------------------- MODULE Lock --------------------------------
(***************************************************************************)
(* Calls on the dead-task store and the lock that orders them: how a call  *)
(* begins, waits, enters, leaves, what its caller then knows, and how      *)
(* workers die, start and fork.  The module stands alone (a call "hold"    *)
(* takes the lock and gives it back) and is the frame of DeadTasks.tla,    *)
(* which adds what happens inside.                                         *)
(*                                                                         *)
(* A worker is a process, a fiber a thread or task of it.  The fibers of a *)
(* worker share one description of the lock file, which flock does not     *)
(* tell apart, so a flag in the worker's memory excludes them (D15, D31).  *)
(* One engine step, one action; plain memory (taking the flag, returning)  *)
(* belongs to the step before it, as it does in the engine.                *)
(*                                                                         *)
(*   Call -> [OpenLock] -> LockTry -> CheckLock -> ... -> Unlock -> return *)
(*             ^  flag or lock busy: Sleep, again, at most MaxTries times  *)
(*             +- path names another inode: CloseLock, OpenLock (D24)      *)
(*                                                                         *)
(* Left out: several backend objects in one process.  Each has a flag and  *)
(* a description of its own, so it is a worker here; that they die         *)
(* together is two kills here.                                             *)
(***************************************************************************)
EXTENDS FileSystem

CONSTANTS
  Workers, Fibers,  \* strings
  MaxTries,         \* attempts on the lock before a time-out (D14)
  LockFds,          \* lock descriptions, a sequence of strings
  Plan,             \* a sequence of sets of <<call, record>>: the choices for the n-th call,
                    \* calls being "hold", "prepare", "add", "remove", "list"; any fiber makes it
  Budget            \* how often each kind of fault may happen, and all together (Spend)

VARIABLES
  fs,         \* the file system (FileSystem.tla)
  pc,         \* next step of each fiber: an action's name, "idle", "down" or "forked"
  job,        \* the locals of each fiber's call
  flag,       \* the fiber that holds the worker's flag, or ""
  lock,       \* the worker's own description of the lock file, or ""
  inherited,  \* a description that a fork brought along and that is still open, or ""
  left,       \* what is left of Budget, and of the calls of Plan
  known       \* what callers may rely on, per record (DeadTasksSpec.tla)

vars == <<fs, pc, job, flag, lock, inherited, left, known>>

DataFd == [w \in Workers |-> [f \in Fibers |-> w \o f \o "d"]]
StagingFd == [w \in Workers |-> [f \in Fibers |-> w \o f \o "s"]]
AllNames == {"live", "tmp", "lock"}
AllFds == Range(LockFds) \cup {DataFd[w][f] : w \in Workers, f \in Fibers}
                         \cup {StagingFd[w][f] : w \in Workers, f \in Fibers}

(***************************************************************************)
(* The locals of a call.  op and rec are its name and argument; tries      *)
(* counts sleeps; clean says whether the mark was trusted; mode is         *)
(* "verbatim" or "dropping" while staging is made, "leaving" when CloseLock *)
(* is the last step; size and end are what StatData and ReadTail gave; buf *)
(* the cells read, or still to be written; found whether a record to be    *)
(* removed was seen; err that the call fails and is on its way out.  A     *)
(* field goes back to its rest value after its last use, so that           *)
(* histories that no longer matter make one state.                         *)
(***************************************************************************)
NoJob == [op |-> "", rec |-> "", tries |-> 0, clean |-> FALSE, mode |-> "", size |-> 0, end |-> 0,
          buf |-> << >>, found |-> FALSE, err |-> FALSE]

Goto(w, f, l) == pc' = [pc EXCEPT ![w][f] = l]

(***************************************************************************)
(* Budgets stand in guards, never in a CONSTRAINT, which could hide a      *)
(* liveness fault.  `faults` caps the faults of all kinds together: with   *)
(* faults = 1 a model tries every kind, one in each behaviour.             *)
(***************************************************************************)
Spend(what) ==
  /\ left[what] > 0 /\ left.faults > 0
  /\ left' = [left EXCEPT ![what] = @ - 1, !.faults = @ - 1]

-----------------------------------------------------------------------------
(***************************************************************************)
(* What a caller knows of a record: "absent" and "present" are promises,   *)
(* "adding" and "removing" mean that an operation began and has not ended  *)
(* well: it may or may not have happened.  An operation begins with the    *)
(* first step that can show (AppendRecord, RenameStaging); until then its  *)
(* failure is definite.  A reader may conclude one thing from what it did  *)
(* not see: a record whose add failed is absent for good (D29).            *)
(***************************************************************************)
AfterReturn(j) ==
  IF j.err THEN known
  ELSE CASE j.op = "add" -> [known EXCEPT ![j.rec] = "present"]
         [] j.op = "remove" -> [known EXCEPT ![j.rec] = "absent"]
         [] j.op = "list" -> [r \in Records |->
              IF known[r] = "adding" /\ r \notin SetOf(j.buf) THEN "absent"
              ELSE known[r]]
         [] OTHER -> known

\* The end of a call that held the flag.
Return(w, f, j) == /\ Goto(w, f, "idle")
                   /\ job' = [job EXCEPT ![w][f] = NoJob]
                   /\ flag' = [flag EXCEPT ![w] = ""]
                   /\ known' = AfterReturn(j)

\* The first step inside.
First(op) == CASE op = "hold" -> "Unlock" [] op = "list" -> "OpenData" [] OTHER -> "ReadMark"

\* One turn of the retry loop: the flag if it is free, then the lock file; else sleep.
Attempt(w, f) ==
  IF flag[w] = ""
  THEN /\ flag' = [flag EXCEPT ![w] = f]
       /\ Goto(w, f, IF lock[w] = "" THEN "OpenLock" ELSE "LockTry")
  ELSE UNCHANGED flag /\ Goto(w, f, "Sleep")

Call(w, f) ==
  /\ pc[w][f] = "idle"
  /\ left.calls > 0
  /\ left' = [left EXCEPT !.calls = @ - 1]
  /\ \E c \in Plan[Len(Plan) - left.calls + 1] :
       job' = [job EXCEPT ![w][f] = [NoJob EXCEPT !.op = c[1], !.rec = c[2]]]
  /\ Attempt(w, f)
  /\ UNCHANGED <<fs, lock, inherited, known>>

-----------------------------------------------------------------------------
NextLockFd ==
  LET free == {k \in 1..Len(LockFds) : fs.fd[LockFds[k]] = 0}
  IN  LockFds[CHOOSE k \in free : \A l \in free : k <= l]

\* open(O_CREAT): a missing lock file is made, and is empty, which is no mark that anybody trusts.
OpenLock(w, f) ==
  /\ pc[w][f] = "OpenLock"
  /\ LET k == NextLockFd
     IN  /\ fs' = IF FsExists(fs, "lock") THEN FsOpen(fs, k, "lock") ELSE FsCreate(fs, k, "lock")
         /\ lock' = [lock EXCEPT ![w] = k]
  /\ Goto(w, f, "LockTry")
  /\ UNCHANGED <<job, flag, inherited, left, known>>

LockTry(w, f) ==
  /\ pc[w][f] = "LockTry"
  /\ IF FsLockFree(fs, lock[w])
     THEN /\ fs' = FsLock(fs, lock[w])
          /\ Goto(w, f, "CheckLock")
          /\ UNCHANGED flag
     ELSE /\ flag' = [flag EXCEPT ![w] = ""]
          /\ Goto(w, f, "Sleep")
          /\ UNCHANGED fs
  /\ UNCHANGED <<job, lock, inherited, left, known>>

CheckLock(w, f) ==
  /\ pc[w][f] = "CheckLock"
  /\ Goto(w, f, IF FsIsNamed(fs, lock[w], "lock") THEN First(job[w][f].op) ELSE "CloseLock")
  /\ UNCHANGED <<fs, job, flag, lock, inherited, left, known>>

\* The only step that waits.  The last one gives up: nothing was changed (D14).
Sleep(w, f) ==
  /\ pc[w][f] = "Sleep"
  /\ IF job[w][f].tries + 1 = MaxTries
     THEN /\ Goto(w, f, "idle")
          /\ job' = [job EXCEPT ![w][f] = NoJob]
          /\ UNCHANGED flag
     ELSE /\ job' = [job EXCEPT ![w][f].tries = @ + 1]
          /\ Attempt(w, f)
  /\ UNCHANGED <<fs, lock, inherited, left, known>>

Unlock(w, f) ==
  /\ pc[w][f] = "Unlock"
  /\ fs' = FsUnlock(fs, lock[w])
  /\ Return(w, f, job[w][f])
  /\ UNCHANGED <<lock, inherited, left>>

(***************************************************************************)
(* A description lives, and keeps its lock, until its last copy is closed; *)
(* a fork may have made another copy.                                      *)
(***************************************************************************)
Copies(k, except) ==
  {v \in Workers : inherited[v] = k} \cup {v \in Workers \ {except} : lock[v] = k}

CloseLock(w, f) ==
  /\ pc[w][f] = "CloseLock"
  /\ fs' = IF Copies(lock[w], w) = {} THEN FsClose(fs, lock[w]) ELSE fs
  /\ lock' = [lock EXCEPT ![w] = ""]
  /\ IF job[w][f].mode = "leaving"
     THEN Return(w, f, job[w][f])
     ELSE Goto(w, f, "OpenLock") /\ UNCHANGED <<job, flag, known>>
  /\ UNCHANGED <<inherited, left>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Faults of this part: a step that raises without having had an effect.   *)
(* Cancellation is the same to the program.  A close that fails has closed *)
(* all the same (Linux), and a sleep cannot fail.                          *)
(***************************************************************************)
FailLock(w, f) ==
  /\ pc[w][f] \in {"OpenLock", "LockTry", "CheckLock", "Unlock"}
  /\ Spend("fails")
  /\ CASE pc[w][f] \in {"OpenLock", "LockTry"} -> Return(w, f, [job[w][f] EXCEPT !.err = TRUE])
       [] pc[w][f] = "CheckLock" ->
            /\ job' = [job EXCEPT ![w][f].err = TRUE, ![w][f].mode = "leaving"]
            /\ Goto(w, f, "CloseLock") /\ UNCHANGED <<flag, known>>
       [] pc[w][f] = "Unlock" ->
            /\ job' = [job EXCEPT ![w][f].mode = "leaving"]
            /\ Goto(w, f, "CloseLock") /\ UNCHANGED <<flag, known>>
  /\ UNCHANGED <<fs, lock, inherited>>

\* What is left when worker w is gone and its memory with it.  The kernel closes what it had open.
Gone(w, f0) ==
  LET shared == {k \in {lock[w], inherited[w]} :
                   \E v \in Workers \ {w} : k \in {lock[v], inherited[v]}}
      own == ({lock[w], inherited[w]} \ shared) \ {""}
      mine == own \cup {DataFd[w][f] : f \in Fibers} \cup {StagingFd[w][f] : f \in Fibers}
  IN  /\ fs' = FsCloseAll(f0, mine)
      /\ pc' = [pc EXCEPT ![w] = [f \in Fibers |-> "down"]]
      /\ job' = [job EXCEPT ![w] = [f \in Fibers |-> NoJob]]
      /\ flag' = [flag EXCEPT ![w] = ""]
      /\ lock' = [lock EXCEPT ![w] = ""]
      /\ inherited' = [inherited EXCEPT ![w] = ""]
      /\ UNCHANGED known

Rest == {"idle", "down"}
Idle(w) == \A f \in Fibers : pc[w][f] \in Rest

\* SIGKILL, the OOM killer, a fault of the interpreter.  Killing a worker between calls only
\* forgets a descriptor, so it is left out.
Kill(w) == ~Idle(w) /\ Spend("kills") /\ Gone(w, fs)

Restart(w) ==
  /\ \A f \in Fibers : pc[w][f] = "down"
  /\ pc' = [pc EXCEPT ![w] = [f \in Fibers |-> "idle"]]
  /\ UNCHANGED <<fs, job, flag, lock, inherited, left, known>>

(***************************************************************************)
(* Fork: the child begins with the parent's description open.  Before      *)
(* anything else runs in it, the at-fork hook closes that copy             *)
(* (DropInherited), and the child opens its own when it needs one (D23).   *)
(* Inherited data descriptors are left out: they carry no lock, and an     *)
(* inode that stays open a little longer changes nothing that is read.     *)
(***************************************************************************)
Fork(w, v) ==
  /\ w # v /\ lock[w] # "" /\ \A f \in Fibers : pc[v][f] = "down"
  /\ Spend("forks")
  /\ pc' = [pc EXCEPT ![v] = [f \in Fibers |-> "forked"]]
  /\ inherited' = [inherited EXCEPT ![v] = lock[w]]
  /\ UNCHANGED <<fs, job, flag, lock, known>>

DropInherited(v) ==
  /\ inherited[v] # ""
  /\ LET last == \A u \in Workers : lock[u] # inherited[v] /\ (u # v => inherited[u] # inherited[v])
     IN  fs' = IF last THEN FsClose(fs, inherited[v]) ELSE fs
  /\ inherited' = [inherited EXCEPT ![v] = ""]
  /\ pc' = [pc EXCEPT ![v] = [f \in Fibers |-> "idle"]]
  /\ UNCHANGED <<job, flag, lock, left, known>>

(***************************************************************************)
(* Somebody else deletes the lock file, or puts an empty one in its place, *)
(* which is the same, since OpenLock makes an empty one.  While nobody     *)
(* holds the lock CheckLock makes this harmless; while somebody does,      *)
(* nothing can, and an old copy with a clean mark lies about the store     *)
(* (D24): LockBroken and DeadTasksBroken have models of both.              *)
(***************************************************************************)
DeleteLock ==
  /\ FsExists(fs, "lock") /\ fs.lk = {}
  /\ Spend("meddles")
  /\ fs' = FsUnlink(fs, "lock")
  /\ UNCHANGED <<pc, job, flag, lock, inherited, known>>

\* Nothing is left to do.  An explicit loop, so that deadlock checking stays on.
Finished == /\ left.calls = 0 /\ \A w \in Workers, f \in Fibers : pc[w][f] = "idle"
            /\ UNCHANGED vars

-----------------------------------------------------------------------------
LockInit(fs0) ==
  /\ fs = fs0
  /\ pc = [w \in Workers |-> [f \in Fibers |-> "down"]]
  /\ job = [w \in Workers |-> [f \in Fibers |-> NoJob]]
  /\ flag = [w \in Workers |-> ""]
  /\ lock = [w \in Workers |-> ""]
  /\ inherited = [w \in Workers |-> ""]
  /\ left = [b \in DOMAIN Budget \cup {"calls"} |->
               IF b = "calls" THEN Len(Plan) ELSE Budget[b]]
  /\ known = [r \in Records |-> IF r \in SetOf(FsSeen(fs0, "live")) THEN "present"
                                ELSE "absent"]

\* The steps of the engine, without any fault.
LockStep(w, f) ==
  \/ OpenLock(w, f) \/ LockTry(w, f) \/ CheckLock(w, f) \/ CloseLock(w, f)
  \/ Sleep(w, f) \/ Unlock(w, f)

Init == LockInit(FsEmpty)

Next ==
  \/ \E w \in Workers, f \in Fibers : Call(w, f) \/ LockStep(w, f) \/ FailLock(w, f)
  \/ \E w \in Workers : Kill(w) \/ Restart(w) \/ DropInherited(w)
  \/ \E w \in Workers, v \in Workers : Fork(w, v)
  \/ DeleteLock
  \/ Finished

Fairness ==
  /\ \A w \in Workers, f \in Fibers : WF_vars(LockStep(w, f))
  /\ \A w \in Workers : WF_vars(DropInherited(w))

LockSpec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
LockPcs == {"OpenLock", "LockTry", "CheckLock", "CloseLock", "Sleep", "idle", "down", "forked"}
Inside(w, f) == pc[w][f] \notin LockPcs

LockTypeOK ==
  /\ FsTypeOK(fs)
  /\ \A w \in Workers : /\ flag[w] \in Fibers \cup {""}
                        /\ lock[w] \in Range(LockFds) \cup {""}
                        /\ lock[w] # "" => fs.fd[lock[w]] # 0
                        /\ \A f \in Fibers : pc[w][f] \in Rest => job[w][f] = NoJob
  /\ \A k \in Range(LockFds) : fs.fd[k] # 0 => \E w \in Workers : k \in {lock[w], inherited[w]}
  /\ known \in [Records -> {"absent", "adding", "present", "removing"}]

\* Two fibers, of one worker or of two, are never inside together (D13, D15).
MutualExclusion ==
  \A w, v \in Workers, f, g \in Fibers :
    Inside(w, f) /\ Inside(v, g) => w = v /\ f = g

\* Nobody unlocks another's lock: whoever is inside holds flag and lock (D10, D15).
HolderKeepsLock ==
  \A w \in Workers, f \in Fibers : Inside(w, f) => flag[w] = f /\ lock[w] \in fs.lk

\* A time-out changes nothing (D14).
TimeoutHarmless ==
  [][\A w \in Workers, f \in Fibers :
       pc[w][f] = "Sleep" /\ pc'[w][f] = "idle" => UNCHANGED <<fs, flag, lock, known>>]_vars

\* A call ends: with success, error or time-out, unless its worker dies (D14).
CallEnds ==
  \A w \in Workers, f \in Fibers : pc[w][f] \notin Rest ~> pc[w][f] \in Rest

\* A lock is never held for ever.  Calls are finite in number here, so that it is free in between
\* at last; with a fair supply of calls the statement would be one per description.
LockFreed == fs.lk # {} ~> fs.lk = {}
=============================================================================

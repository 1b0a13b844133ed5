----------------------------- MODULE LockBroken -----------------------------
(***************************************************************************)
(* Locks that do not hold what they promise.  Each definition replaces the *)
(* one of the same purpose in Lock.tla, named in a model's configuration   *)
(* (OldName <- NewName); the model must then violate the property that its *)
(* manifest entry names.                                                   *)
(***************************************************************************)
EXTENDS MC_Lock

\* D15: fibers share a description, flock excludes descriptions, and there is no flag.
AttemptWithoutFlag(w, f) ==
  /\ Goto(w, f, IF lock[w] = "" THEN "OpenLock" ELSE "LockTry")
  /\ UNCHANGED flag
HolderHasLock == \A w \in Workers, f \in Fibers : Inside(w, f) => lock[w] \in fs.lk

\* D10: a time-out that "cleans up" the lock of whoever has it.
SleepThenUnlock(w, f) ==
  /\ pc[w][f] = "Sleep"
  /\ IF job[w][f].tries + 1 = MaxTries
     THEN /\ Goto(w, f, "idle")
          /\ job' = [job EXCEPT ![w][f] = NoJob]
          /\ fs' = IF lock[w] = "" THEN fs ELSE FsUnlock(fs, lock[w])
          /\ UNCHANGED flag
     ELSE /\ job' = [job EXCEPT ![w][f].tries = @ + 1]
          /\ Attempt(w, f)
          /\ UNCHANGED fs
  /\ UNCHANGED <<lock, inherited, left, known>>

\* D13: the lock file is removed on release; nobody is inside any more, but somebody waits.
UnlockThenUnlink(w, f) ==
  /\ pc[w][f] = "Unlock"
  /\ fs' = FsUnlock(fs, lock[w])
  /\ job' = [job EXCEPT ![w][f].mode = "leaving"]
  /\ Goto(w, f, "CloseLock")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>
UnlinkAndClose(w, f) ==
  /\ pc[w][f] = "CloseLock"
  /\ fs' = FsClose(FsUnlink(fs, "lock"), lock[w])
  /\ lock' = [lock EXCEPT ![w] = ""]
  /\ IF job[w][f].mode = "leaving"
     THEN Return(w, f, job[w][f])
     ELSE Goto(w, f, "OpenLock") /\ UNCHANGED <<job, flag, known>>
  /\ UNCHANGED <<inherited, left>>

\* D24: nobody looks whether the path still names what was locked.
LockUnchecked(w, f) ==
  /\ pc[w][f] = "CheckLock"
  /\ Goto(w, f, First(job[w][f].op))
  /\ UNCHANGED <<fs, job, flag, lock, inherited, left, known>>

\* D24: the race that remains: the file is deleted under a holder, and CheckLock cannot help.
DeleteHeldLock ==
  /\ FsExists(fs, "lock")
  /\ Spend("meddles")
  /\ fs' = FsUnlink(fs, "lock")
  /\ UNCHANGED <<pc, job, flag, lock, inherited, known>>

\* D23: the child goes on with the parent's description; both hold what one of them locked.
ForkSharing(w, v) ==
  /\ w # v /\ lock[w] # "" /\ \A f \in Fibers : pc[v][f] = "down"
  /\ Spend("forks")
  /\ pc' = [pc EXCEPT ![v] = [f \in Fibers |-> "idle"]]
  /\ lock' = [lock EXCEPT ![v] = lock[w]]
  /\ UNCHANGED <<fs, job, flag, inherited, known>>

\* D23: the child does not use the description, but never closes it either; when the parent dies
\* inside, the lock lives on in the child.
ForkLeaking(v) ==
  /\ inherited[v] # "" /\ \E f \in Fibers : pc[v][f] = "forked"
  /\ pc' = [pc EXCEPT ![v] = [f \in Fibers |-> "idle"]]
  /\ UNCHANGED <<fs, job, flag, lock, inherited, left, known>>

\* F2: an error inside, and the lock is not given back.
FailWithoutRelease(w, f) ==
  /\ pc[w][f] = "Unlock"
  /\ Spend("fails")
  /\ Goto(w, f, "idle")
  /\ job' = [job EXCEPT ![w][f] = NoJob]
  /\ UNCHANGED <<fs, flag, lock, inherited, known>>

\* D14: no cap on the attempts; then one lost lock hangs everybody.
SleepForEver(w, f) ==
  /\ pc[w][f] = "Sleep"
  /\ Attempt(w, f)
  /\ UNCHANGED <<fs, job, lock, inherited, left, known>>

\* A description is forgotten without being closed.
ForgetLock(w, f) ==
  /\ pc[w][f] = "CloseLock"
  /\ lock' = [lock EXCEPT ![w] = ""]
  /\ Goto(w, f, "OpenLock")
  /\ UNCHANGED <<fs, job, flag, inherited, left, known>>
=============================================================================

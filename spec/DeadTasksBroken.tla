--------------------------- MODULE DeadTasksBroken ---------------------------
(***************************************************************************)
(* Rejected designs and planted faults of the dead-task store.  Each       *)
(* definition replaces one of DeadTasks.tla or Lock.tla, named in a        *)
(* model's configuration (OldName <- NewName); the model must then violate *)
(* the property that its manifest entry names, and the shortest way there  *)
(* is what the docs tell.                                                  *)
(***************************************************************************)
EXTENDS MC_DeadTasks

Skip(w, f, here, next) ==
  /\ pc[w][f] = here
  /\ Goto(w, f, next)
  /\ UNCHANGED <<fs, job, flag, lock, inherited, left, known>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* D20, the ghost inode.  The data file itself is locked, through a        *)
(* descriptor that is opened once and kept.  After another worker's rename *)
(* both lock and data are an inode that no path reaches: an append goes    *)
(* nowhere, and a compaction renames the ghost's content back over the     *)
(* live file.  There is no lock file, hence no mark.                       *)
(***************************************************************************)
OpenDataAsLock(w, f) ==
  /\ pc[w][f] = "OpenLock"
  /\ fs' = FsOpen(fs, NextLockFd, "live")
  /\ lock' = [lock EXCEPT ![w] = NextLockFd]
  /\ Goto(w, f, "LockTry")
  /\ UNCHANGED <<job, flag, inherited, left, known>>
LockUnchecked(w, f) == Skip(w, f, "CheckLock", First(job[w][f].op))
NoMark(w, mark) == fs
OpenCachedLock(w, f) ==
  /\ pc[w][f] = "OpenData"
  /\ fs' = [fs EXCEPT !.fd[Data(w, f)] = fs.fd[lock[w]]]
  /\ Goto(w, f, "StatData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

\* The lock is right, but the data descriptor is kept from one operation to the next (D13).
OpenCachedData(w, f) ==
  /\ pc[w][f] = "OpenData"
  /\ fs' = IF IsOpen(Data(w, f)) THEN fs ELSE FsOpen(fs, Data(w, f), "live")
  /\ Goto(w, f, "StatData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>
KeepDataOpen(w, f) ==
  LET j == job[w][f]
  IN  Skip(w, f, "CloseData", IF j.mode # "" THEN AfterCopy(j)
                              ELSE IF j.op = "list" THEN "Unlock" ELSE "ClearMark")

-----------------------------------------------------------------------------
\* D20: compaction in place.  Between truncation and fsync a crash leaves less than there was.
NoStaging(w, f) == Skip(w, f, "CreateStaging", "OpenData")
RewriteInPlace(w, f) ==
  /\ pc[w][f] = "WriteStaging"
  /\ fs' = FsAppend(FsTruncate(fs, Data(w, f), 0), Data(w, f), job[w][f].buf)
  /\ Keep(w, f, [NoJob EXCEPT !.op = job[w][f].op, !.rec = job[w][f].rec])
  /\ Goto(w, f, "FsyncData")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* D20: no tail repair.  The new line is glued to the fragment and neither can be read.
NoTailRepair(w, f) ==
  /\ pc[w][f] = "ReadTail"
  /\ Keep(w, f, [job[w][f] EXCEPT !.size = 0, !.buf = Line(job[w][f].rec)])
  /\ Goto(w, f, "AppendRecord")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

\* D11: tail repair that goes back one line too far.
RepairTooFar(w, f) ==
  /\ pc[w][f] = "ReadTail"
  /\ LET c == FsContent(fs, Data(w, f))
         whole == Whole(c)
         end == IF whole = 0 THEN 0 ELSE Whole(SubSeq(c, 1, whole - 1))
     IN  Keep(w, f, [job[w][f] EXCEPT !.end = end])
  /\ Goto(w, f, "TruncateTail")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

\* D9, D12, D20: no directory fsync after the rename.
NoFsyncDir(w, f) ==
  Skip(w, f, "FsyncDir", IF job[w][f].op = "add" THEN "OpenData" ELSE "ClearMark")

\* D12: staging is renamed before its content is durable.
NoFsyncStaging(w, f) == Skip(w, f, "FsyncStaging", "CloseStaging")

\* D10: acknowledged without an fsync of the data.
NoFsyncData(w, f) == Skip(w, f, "FsyncData", "CloseData")

-----------------------------------------------------------------------------
(***************************************************************************)
(* D32: the mark is not looked at.  Then nobody mends what a dead or       *)
(* failed holder left undone: a name that is not durable (an add is        *)
(* acknowledged on an inode that a crash forgets), dirty data that a       *)
(* failed fsync dropped, a removal whose directory fsync failed (D19).     *)
(***************************************************************************)
TrustMark(w, f) ==
  /\ pc[w][f] = "ReadMark"
  /\ LET j == job[w][f]
     IN  CASE j.op = "prepare" -> UNCHANGED job /\ Goto(w, f, "Unlock")
           [] j.op = "add" -> Keep(w, f, [j EXCEPT !.clean = TRUE]) /\ Goto(w, f, "SetMark")
           [] j.op = "remove" -> /\ Keep(w, f, [j EXCEPT !.clean = TRUE, !.mode = "dropping"])
                                 /\ Goto(w, f, "CreateStaging")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

(***************************************************************************)
(* D29 without the copy: what would keep a record away whose add failed    *)
(* and that a reader missed?  Its bytes may lie beyond the file's end.     *)
(*   one fsync    truncate to the last newline before every append, even   *)
(*                to the size that the file has, with one fsync for both   *)
(*   torn only    an fsync between truncation and append, and truncation   *)
(*                where the tail is torn                                   *)
(*   both         truncate before every append, and fsync before it        *)
(* TLC: only the last holds.  The copy holds too, and heals the rest.      *)
(***************************************************************************)
StatThenTail(w, f) ==
  /\ pc[w][f] = "StatData"
  /\ LET j == job[w][f]
         n == Len(FsContent(fs, Data(w, f)))
     IN  CASE j.mode = "" /\ j.op = "add" ->
                Keep(w, f, [j EXCEPT !.size = n]) /\ Goto(w, f, "ReadTail")
           [] j.mode = "dropping" -> Keep(w, f, [j EXCEPT !.size = n]) /\ Goto(w, f, "MatchOwner")
           [] OTHER -> UNCHANGED job /\ Goto(w, f, IF n = 0 THEN "CloseData" ELSE "ReadLive")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>
AlwaysTruncate(w, f) ==
  /\ pc[w][f] = "ReadTail"
  /\ Keep(w, f, [job[w][f] EXCEPT !.end = Whole(FsContent(fs, Data(w, f)))])
  /\ Goto(w, f, "TruncateTail")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>
TruncateAndSync(w, f) ==
  /\ pc[w][f] = "TruncateTail"
  /\ fs' = FsSync(FsTruncate(fs, Data(w, f), job[w][f].end), Data(w, f))
  /\ Keep(w, f, [job[w][f] EXCEPT !.size = 0, !.end = 0, !.buf = Line(job[w][f].rec)])
  /\ Goto(w, f, "AppendRecord")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* D32: a mark that is not set before the change says nothing about the change.
NeverSetMark(w, f) ==
  /\ pc[w][f] = "SetMark"
  /\ LET j == job[w][f]
     IN  CASE j.mode = "dropping" -> UNCHANGED job /\ Goto(w, f, "FsyncStaging")
           [] j.mode # "dropping" /\ j.clean -> Keep(w, f, [j EXCEPT !.clean = FALSE])
                                               /\ Goto(w, f, "OpenData")
           [] OTHER -> Keep(w, f, [j EXCEPT !.mode = "verbatim"]) /\ Goto(w, f, "CreateStaging")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

\* D24: somebody puts an old copy of the lock file in place, with its clean mark.
RestoreLock ==
  /\ FsExists(fs, "lock") /\ fs.lk = {}
  /\ Spend("meddles")
  /\ LET i == FreeInode(fs)
         g == Relink(fs, LAMBDA dir : [dir EXCEPT !["lock"] = i])
         m == <<Clean, << >> >>
     IN  fs' = Collect([g EXCEPT !.ino[i] = [mem |-> Clean, want |-> m, disk |-> {m}]])
  /\ UNCHANGED <<pc, job, flag, lock, inherited, known>>

\* W9 for this store: an operation that failed in fsync says "clean" all the same.
FailFsyncAsClean(w, f) ==
  /\ pc[w][f] \in {"FsyncData", "FsyncStaging", "FsyncDir"}
  /\ Spend("fails")
  /\ LET marked == WriteMark(w, Clean).ino[fs.fd[lock[w]]]
         failed == CASE pc[w][f] = "FsyncData" -> FsSyncFails(fs, Data(w, f))
                     [] pc[w][f] = "FsyncStaging" -> FsSyncFails(fs, Staging(w, f))
                     [] pc[w][f] = "FsyncDir" -> FsSyncDirFails(fs)
     IN  fs' \in {[g EXCEPT !.ino[fs.fd[lock[w]]] = marked] : g \in failed}
  /\ Unwind(w, f, IsOpen(Data(w, f)), IsOpen(Staging(w, f)))
  /\ UNCHANGED <<flag, lock, inherited, known>>

-----------------------------------------------------------------------------
\* D29: an orphan staging file is written over, not truncated and not replaced.
ReuseStaging(w, f) ==
  /\ pc[w][f] = "CreateStaging"
  /\ fs' = IF FsExists(fs, "tmp") THEN FsOpen(fs, Staging(w, f), "tmp")
           ELSE FsCreate(fs, Staging(w, f), "tmp")
  /\ Goto(w, f, "OpenData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>
OverwriteStaging(w, f) ==
  /\ pc[w][f] = "WriteStaging"
  /\ fs' = FsWrite(fs, Staging(w, f), 0, job[w][f].buf)
  /\ Keep(w, f, [job[w][f] EXCEPT !.buf = << >>])
  /\ Goto(w, f, "CloseData")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* D12's letter, "create or truncate": the orphan's inode is used again after truncation.  TLC finds
\* no fault in this one: everything in staging is fsynced before the rename.
TruncateStaging(w, f) ==
  /\ pc[w][f] = "CreateStaging"
  /\ LET d == Staging(w, f)
     IN  fs' = IF FsExists(fs, "tmp") THEN FsTruncate(FsOpen(fs, d, "tmp"), d, 0)
               ELSE FsCreate(fs, d, "tmp")
  /\ Goto(w, f, "OpenData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

\* F2: an error path that forgets what is open.
UnwindLeaking(w, f, dataOpen, stagingOpen) ==
  /\ Goto(w, f, "Unlock")
  /\ Keep(w, f, [NoJob EXCEPT !.op = job[w][f].op, !.rec = job[w][f].rec, !.err = TRUE])

\* F2: an error inside, and nothing is given back.
UnwindWithoutUnlock(w, f, dataOpen, stagingOpen) ==
  /\ Goto(w, f, "idle")
  /\ Keep(w, f, NoJob)

\* D34: a reader that takes what it saw for a promise.
ReaderBelieves(j) ==
  IF j.err THEN known
  ELSE CASE j.op = "add" -> [known EXCEPT ![j.rec] = "present"]
         [] j.op = "remove" -> [known EXCEPT ![j.rec] = "absent"]
         [] j.op = "list" -> [r \in Records |->
              IF known[r] \in {"adding", "removing"}
              THEN IF r \in SetOf(j.buf) THEN "present" ELSE "absent" ELSE known[r]]
         [] OTHER -> known
=============================================================================

------------------------------ MODULE DeadTasks ------------------------------
(***************************************************************************)
(* The dead-task store: append with tail repair, compaction by rename, and *)
(* healing by copy.  Three names: "live" holds the records, "tmp" is       *)
(* staging, "lock" is the lock file (Lock.tla), whose content is a mark:   *)
(* clean, or anything else.                                                *)
(*                                                                         *)
(* The mark is the whole of recovery.  It is set before the first change   *)
(* of an operation, cleared after the last one is durable, never fsynced,  *)
(* and believed only in the boot that wrote it.  Whoever finds it unclean  *)
(* first republishes: copies the live file, verbatim up to its last        *)
(* newline, to a new inode, fsyncs that, renames it over live and fsyncs   *)
(* the directory.  Whatever a dead holder, a failed fsync or a host crash  *)
(* left undone is thereby done (D9, D18, D19, D28, D29, D32, F2).          *)
(*                                                                         *)
(* The programs, one word an engine step (reference/lychgate/_dead.py):    *)
(*   prepare  ReadMark ( SetMark stage publish ClearMark )  Unlock         *)
(*   add      ReadMark SetMark (stage publish) OpenData StatData ReadTail  *)
(*            (TruncateTail) AppendRecord.. FsyncData CloseData ClearMark  *)
(*            Unlock                                                       *)
(*   remove   ReadMark stage, then if nothing is to be done CloseStaging   *)
(*            UnlinkStaging Unlock, else publish ClearMark Unlock          *)
(*   list     OpenData StatData ReadLive CloseData Unlock   (find as well) *)
(*   stage    CreateStaging (UnlinkStaging CreateStaging) OpenData         *)
(*            StatData ReadTail MatchOwner ReadLive WriteStaging.. CloseData *)
(*            (SetMark) FsyncStaging CloseStaging                          *)
(*   publish  RenameStaging FsyncDir                                       *)
(* An error anywhere inside: CloseData and CloseStaging of what is open,   *)
(* UnlinkStaging of a copy that is not finished (it must not eat the space *)
(* that the next add needs), Unlock; the mark stays set.                   *)
(*                                                                         *)
(* Sound abstractions.  A step of the engine that repeats for a large file *)
(* (ReadTail, ReadLive, WriteStaging) is taken once: all of it happens     *)
(* under the lock, so that others see the file before or after.  A record  *)
(* stands for an id and its content; several records of one id are the     *)
(* same record several times (D26).  Lines with a bad CRC are torn lines   *)
(* with something behind them.  Only the cells of a mark that matter are   *)
(* kept: "clean" of this boot, or not.                                     *)
(* Left out: MakeDir and FsyncParent (D22), which come before any of this. *)
(***************************************************************************)
EXTENDS Lock

CONSTANT Store   \* "new": nothing exists; "ready": one record, all durable; "torn": and a fragment

Data(w, f) == DataFd[w][f]
Staging(w, f) == StagingFd[w][f]
IsOpen(d) == fs.fd[d] # 0

\* Replace some locals of a call.
Keep(w, f, j) == job' = [job EXCEPT ![w][f] = j]

-----------------------------------------------------------------------------
(***************************************************************************)
(* The mark.  Its durable value matters in one case only, when storage is  *)
(* lost and mounted again within one boot (Remount): a host crash makes    *)
(* any mark untrusted, whatever it says.  So without a Remount in the      *)
(* budget its durable value is not tracked.                                *)
(***************************************************************************)
Clean == <<"clean">>
Dirty == <<"dirty">>
WriteMark(w, mark) ==
  LET i == fs.fd[lock[w]]
      m == <<mark, << >> >>
  IN  [fs EXCEPT !.ino[i] = [mem |-> mark, want |-> m,
         disk |-> IF Budget.remounts = 0 THEN {m} ELSE @.disk \cup {m}]]

ReadMark(w, f) ==
  /\ pc[w][f] = "ReadMark"
  /\ LET j == job[w][f]
         clean == FsContent(fs, lock[w]) = Clean
     IN  CASE j.op = "prepare" -> UNCHANGED job /\ Goto(w, f, IF clean THEN "Unlock" ELSE "SetMark")
           [] j.op = "add" -> Keep(w, f, [j EXCEPT !.clean = clean]) /\ Goto(w, f, "SetMark")
           [] j.op = "remove" -> /\ Keep(w, f, [j EXCEPT !.clean = clean, !.mode = "dropping"])
                                 /\ Goto(w, f, "CreateStaging")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

SetMark(w, f) ==
  /\ pc[w][f] = "SetMark"
  /\ fs' = WriteMark(w, Dirty)
  /\ LET j == job[w][f]
     IN  CASE j.mode = "dropping" -> UNCHANGED job /\ Goto(w, f, "FsyncStaging")
           [] j.mode # "dropping" /\ j.clean -> Keep(w, f, [j EXCEPT !.clean = FALSE])
                                               /\ Goto(w, f, "OpenData")
           [] OTHER -> Keep(w, f, [j EXCEPT !.mode = "verbatim"]) /\ Goto(w, f, "CreateStaging")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* Everything is durable.  A failure here is not the caller's: the next holder makes a copy.
ClearMark(w, f) ==
  /\ pc[w][f] = "ClearMark"
  /\ fs' = WriteMark(w, Clean)
  /\ Goto(w, f, "Unlock")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Staging.  Always a new inode: an orphan is unlinked, not reused, since  *)
(* a crash could bring back what a reused inode held (D29).                *)
(***************************************************************************)
CreateStaging(w, f) ==
  /\ pc[w][f] = "CreateStaging"
  /\ IF FsExists(fs, "tmp")
     THEN UNCHANGED fs /\ Goto(w, f, "UnlinkStaging")
     ELSE fs' = FsCreate(fs, Staging(w, f), "tmp") /\ Goto(w, f, "OpenData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

\* An orphan, before; or, after, the copy of a remove that found nothing (D12), or one that failed.
UnlinkStaging(w, f) ==
  /\ pc[w][f] = "UnlinkStaging"
  /\ fs' = FsUnlink(fs, "tmp")
  /\ Goto(w, f, IF job[w][f].mode = "" THEN "Unlock" ELSE "CreateStaging")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

\* After the copy: a remove that found nothing, under a trusted mark, has nothing to publish (D19).
WorthPublishing(j) == j.mode = "verbatim" \/ j.found \/ ~j.clean
AfterCopy(j) == CASE j.mode = "verbatim" -> "FsyncStaging"
                  [] j.mode = "dropping" -> IF WorthPublishing(j) THEN "SetMark" ELSE "CloseStaging"

MatchOwner(w, f) ==
  /\ pc[w][f] = "MatchOwner"
  /\ LET j == job[w][f]
         end == IF j.mode = "verbatim" THEN j.end ELSE j.size
     IN  /\ Goto(w, f, IF end = 0 THEN "CloseData" ELSE "ReadLive")
         /\ Keep(w, f, [j EXCEPT !.size = 0])
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

WriteStaging(w, f) ==
  /\ pc[w][f] = "WriteStaging"
  /\ fs' = FsAppend(fs, Staging(w, f), job[w][f].buf)
  /\ Keep(w, f, [job[w][f] EXCEPT !.buf = << >>])
  /\ Goto(w, f, "CloseData")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

FsyncStaging(w, f) ==
  /\ pc[w][f] = "FsyncStaging"
  /\ fs' = FsSync(fs, Staging(w, f))
  /\ Goto(w, f, "CloseStaging")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

CloseStaging(w, f) ==
  /\ pc[w][f] = "CloseStaging"
  /\ fs' = FsClose(fs, Staging(w, f))
  /\ LET j == job[w][f]
         rest == [j EXCEPT !.mode = "", !.clean = FALSE, !.found = FALSE]
     IN  /\ Keep(w, f, rest)
         /\ Goto(w, f, IF j.err THEN "UnlinkStaging"
                       ELSE IF WorthPublishing(j) THEN "RenameStaging" ELSE "UnlinkStaging")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* From here on a remove may have happened.
RenameStaging(w, f) ==
  /\ pc[w][f] = "RenameStaging"
  /\ fs' = FsRename(fs, "tmp", "live")
  /\ known' = LET r == job[w][f].rec
              IN  IF job[w][f].op = "remove" /\ known[r] # "absent"
                  THEN [known EXCEPT ![r] = "removing"] ELSE known
  /\ Goto(w, f, "FsyncDir")
  /\ UNCHANGED <<job, flag, lock, inherited, left>>

FsyncDir(w, f) ==
  /\ pc[w][f] = "FsyncDir"
  /\ fs' = FsSyncDir(fs)
  /\ Goto(w, f, IF job[w][f].op = "add" THEN "OpenData" ELSE "ClearMark")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

-----------------------------------------------------------------------------
\* The live file, opened by its path, under the lock, for one operation (D13).
OpenData(w, f) ==
  /\ pc[w][f] = "OpenData"
  /\ LET j == job[w][f]
     IN  IF FsExists(fs, "live")
         THEN fs' = FsOpen(fs, Data(w, f), "live") /\ Goto(w, f, "StatData") /\ UNCHANGED job
         ELSE /\ UNCHANGED fs
              /\ CASE j.mode # "" -> Goto(w, f, AfterCopy(j)) /\ UNCHANGED job
                   [] j.mode = "" /\ j.op = "add" ->
                        Goto(w, f, "CreateStaging") /\ Keep(w, f, [j EXCEPT !.mode = "verbatim"])
                   [] j.mode = "" /\ j.op = "list" -> Goto(w, f, "Unlock") /\ UNCHANGED job
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

StatData(w, f) ==
  /\ pc[w][f] = "StatData"
  /\ LET j == job[w][f]
         n == Len(FsContent(fs, Data(w, f)))
     IN  CASE j.mode = "verbatim" \/ (j.mode = "" /\ j.op = "add") ->
                IF n > 0 THEN Keep(w, f, [j EXCEPT !.size = n]) /\ Goto(w, f, "ReadTail")
                ELSE IF j.mode = "verbatim" THEN Goto(w, f, "MatchOwner") /\ UNCHANGED job
                ELSE Keep(w, f, [j EXCEPT !.buf = Line(j.rec)]) /\ Goto(w, f, "AppendRecord")
           [] j.mode = "dropping" -> Keep(w, f, [j EXCEPT !.size = n]) /\ Goto(w, f, "MatchOwner")
           [] OTHER -> UNCHANGED job /\ Goto(w, f, IF n = 0 THEN "CloseData" ELSE "ReadLive")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

\* Backward to the last newline (D11).
ReadTail(w, f) ==
  /\ pc[w][f] = "ReadTail"
  /\ LET j == job[w][f]
         end == Whole(SubSeq(FsContent(fs, Data(w, f)), 1, j.size))
     IN  IF j.mode = "verbatim"
         THEN Keep(w, f, [j EXCEPT !.end = end]) /\ Goto(w, f, "MatchOwner")
         ELSE IF end < j.size
         THEN Keep(w, f, [j EXCEPT !.end = end]) /\ Goto(w, f, "TruncateTail")
         ELSE Keep(w, f, [j EXCEPT !.size = 0, !.buf = Line(j.rec)]) /\ Goto(w, f, "AppendRecord")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

TruncateTail(w, f) ==
  /\ pc[w][f] = "TruncateTail"
  /\ fs' = FsTruncate(fs, Data(w, f), job[w][f].end)
  /\ Keep(w, f, [job[w][f] EXCEPT !.size = 0, !.end = 0, !.buf = Line(job[w][f].rec)])
  /\ Goto(w, f, "AppendRecord")
  /\ UNCHANGED <<flag, lock, inherited, left, known>>

\* Once the last cell is written the add may have happened.
AppendRecord(w, f) ==
  /\ pc[w][f] = "AppendRecord"
  /\ fs' = FsAppend(fs, Data(w, f), job[w][f].buf)
  /\ known' = LET r == job[w][f].rec
              IN  IF known[r] = "absent" THEN [known EXCEPT ![r] = "adding"] ELSE known
  /\ Keep(w, f, [job[w][f] EXCEPT !.buf = << >>])
  /\ Goto(w, f, "FsyncData")
  /\ UNCHANGED <<flag, lock, inherited, left>>

FsyncData(w, f) ==
  /\ pc[w][f] = "FsyncData"
  /\ fs' = FsSync(fs, Data(w, f))
  /\ Goto(w, f, "CloseData")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

\* What a copy takes over, or a reader sees.
ReadLive(w, f) ==
  /\ pc[w][f] = "ReadLive"
  /\ LET j == job[w][f]
         c == FsContent(fs, Data(w, f))
         rs == RecordsOf(c)
         kept == LinesOf(SelectSeq(rs, LAMBDA r : r # j.rec))
     IN  CASE j.mode = "verbatim" ->
                /\ Keep(w, f, [j EXCEPT !.buf = SubSeq(c, 1, j.end), !.end = 0])
                /\ Goto(w, f, "WriteStaging")
           [] j.mode = "dropping" ->
                /\ Keep(w, f, [j EXCEPT !.buf = kept, !.found = j.rec \in SetOf(c)])
                /\ Goto(w, f, IF kept = << >> THEN "CloseData" ELSE "WriteStaging")
           [] OTHER -> Keep(w, f, [j EXCEPT !.buf = c]) /\ Goto(w, f, "CloseData")
  /\ UNCHANGED <<fs, flag, lock, inherited, left, known>>

CloseData(w, f) ==
  /\ pc[w][f] = "CloseData"
  /\ fs' = FsClose(fs, Data(w, f))
  /\ LET j == job[w][f]
     IN  Goto(w, f, CASE j.err -> IF IsOpen(Staging(w, f)) THEN "CloseStaging" ELSE "Unlock"
                      [] ~j.err /\ j.mode # "" -> AfterCopy(j)
                      [] ~j.err /\ j.mode = "" -> IF j.op = "list" THEN "Unlock" ELSE "ClearMark")
  /\ UNCHANGED <<job, flag, lock, inherited, left, known>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Faults (F2).  A step may fail without effect: the call is on its way    *)
(* out, over the closing of what is open.  The rest values of the locals   *)
(* keep only what a list needs.                                            *)
(***************************************************************************)
Failed(j) == [NoJob EXCEPT !.op = j.op, !.rec = j.rec, !.err = TRUE]
Unwind(w, f, dataOpen, stagingOpen) ==
  /\ Goto(w, f, IF dataOpen THEN "CloseData" ELSE IF stagingOpen THEN "CloseStaging" ELSE "Unlock")
  /\ Keep(w, f, Failed(job[w][f]))

MayFail == {"ReadMark", "SetMark", "CreateStaging", "UnlinkStaging", "MatchOwner", "WriteStaging",
            "RenameStaging", "OpenData", "StatData", "ReadTail", "TruncateTail", "AppendRecord",
            "ReadLive"}

Fail(w, f) ==
  /\ pc[w][f] \in MayFail
  /\ Spend("fails")
  /\ Unwind(w, f, IsOpen(Data(w, f)), IsOpen(Staging(w, f)))
  /\ UNCHANGED <<fs, flag, lock, inherited, known>>

\* A mark that cannot be cleared costs the next holder a copy and the caller nothing.
FailClearMark(w, f) ==
  /\ pc[w][f] = "ClearMark"
  /\ Spend("fails")
  /\ Goto(w, f, "Unlock")
  /\ UNCHANGED <<fs, job, flag, lock, inherited, known>>

\* A failed close has closed.
FailClose(w, f) ==
  /\ pc[w][f] \in {"CloseData", "CloseStaging"}
  /\ Spend("fails")
  /\ LET data == pc[w][f] = "CloseData"
     IN  /\ fs' = FsClose(fs, IF data THEN Data(w, f) ELSE Staging(w, f))
         /\ Goto(w, f, IF ~data THEN "UnlinkStaging"
                       ELSE IF IsOpen(Staging(w, f)) THEN "CloseStaging" ELSE "Unlock")
         /\ Keep(w, f, Failed(job[w][f]))
  /\ UNCHANGED <<flag, lock, inherited, known>>

FailFsync(w, f) ==
  /\ pc[w][f] \in {"FsyncData", "FsyncStaging", "FsyncDir"}
  /\ Spend("fails")
  /\ fs' \in CASE pc[w][f] = "FsyncData" -> FsSyncFails(fs, Data(w, f))
               [] pc[w][f] = "FsyncStaging" -> FsSyncFails(fs, Staging(w, f))
               [] pc[w][f] = "FsyncDir" -> FsSyncDirFails(fs)
  /\ Unwind(w, f, IsOpen(Data(w, f)), IsOpen(Staging(w, f)))
  /\ UNCHANGED <<flag, lock, inherited, known>>

(***************************************************************************)
(* A short write takes one cell; the engine writes the rest in another     *)
(* step of the same name.  A kill inside a write leaves the same.          *)
(***************************************************************************)
WriteTarget(w, f) == IF pc[w][f] = "AppendRecord" THEN Data(w, f) ELSE Staging(w, f)
CanBeShort(w, f) == pc[w][f] \in {"AppendRecord", "WriteStaging"} /\ Len(job[w][f].buf) > 1
FirstCell(w, f) == FsAppend(fs, WriteTarget(w, f), SubSeq(job[w][f].buf, 1, 1))

ShortWrite(w, f) ==
  /\ CanBeShort(w, f)
  /\ Spend("fails")
  /\ fs' = FirstCell(w, f)
  /\ Keep(w, f, [job[w][f] EXCEPT !.buf = Tail(@)])
  /\ UNCHANGED <<pc, flag, lock, inherited, known>>

KillInWrite(w, f) ==
  /\ CanBeShort(w, f)
  /\ Spend("kills")
  /\ Gone(w, FirstCell(w, f))

(***************************************************************************)
(* A host crash takes every process and leaves one of the legal states of  *)
(* the disk.  The boot id is another, so the mark is unclean whatever it   *)
(* says.  Remount is the same within one boot: storage was lost, and came  *)
(* back, and a mark of before may still be believed.                       *)
(***************************************************************************)
MarkAs(g, keep) ==
  LET i == g.dir["lock"]
      c == IF keep /\ g.ino[i].mem = Clean THEN Clean ELSE Dirty
  IN  IF i = 0 THEN g
      ELSE [g EXCEPT !.ino[i] = [mem |-> c, want |-> <<c, << >> >>, disk |-> {<<c, << >> >>}]]

AllGone ==
  /\ \E w \in Workers : ~Idle(w)
  /\ pc' = [w \in Workers |-> [f \in Fibers |-> "down"]]
  /\ job' = [w \in Workers |-> [f \in Fibers |-> NoJob]]
  /\ flag' = [w \in Workers |-> ""]
  /\ lock' = [w \in Workers |-> ""]
  /\ inherited' = [w \in Workers |-> ""]
  /\ UNCHANGED known

HostCrash == /\ AllGone
             /\ Spend("crashes")
             /\ fs' \in {MarkAs(g, FALSE) : g \in FsHostCrashes(fs)}

Remount == /\ AllGone
           /\ Spend("remounts")
           /\ fs' \in {MarkAs(g, TRUE) : g \in FsHostCrashes(fs)}

-----------------------------------------------------------------------------
InitialFs ==
  LET lines == Line("a") \o (IF Store = "torn" THEN <<Front["b"]>> ELSE << >>)
      file(c) == [mem |-> c, want |-> <<c, << >> >>, disk |-> {<<c, << >> >>}]
      dir == [live |-> 1, tmp |-> 0, lock |-> 2]
  IN  IF Store = "new" THEN FsEmpty
      ELSE [FsEmpty EXCEPT !.ino[1] = file(lines), !.ino[2] = file(Clean),
                           !.dir = dir, !.dirs = {dir}, !.dwant = dir]

DeadInit == LockInit(InitialFs)

DeadStep(w, f) ==
  \/ ReadMark(w, f) \/ SetMark(w, f) \/ ClearMark(w, f)
  \/ CreateStaging(w, f) \/ UnlinkStaging(w, f) \/ MatchOwner(w, f) \/ WriteStaging(w, f)
  \/ FsyncStaging(w, f) \/ CloseStaging(w, f) \/ RenameStaging(w, f) \/ FsyncDir(w, f)
  \/ OpenData(w, f) \/ StatData(w, f) \/ ReadTail(w, f) \/ TruncateTail(w, f)
  \/ AppendRecord(w, f) \/ FsyncData(w, f) \/ ReadLive(w, f) \/ CloseData(w, f)

DeadFault(w, f) ==
  \/ FailLock(w, f) \/ Fail(w, f) \/ FailClearMark(w, f) \/ FailClose(w, f) \/ FailFsync(w, f)
  \/ ShortWrite(w, f) \/ KillInWrite(w, f)

DeadNext ==
  \/ \E w \in Workers, f \in Fibers :
       Call(w, f) \/ LockStep(w, f) \/ DeadStep(w, f) \/ DeadFault(w, f)
  \/ \E w \in Workers : Kill(w) \/ Restart(w) \/ DropInherited(w)
  \/ \E w \in Workers, v \in Workers : Fork(w, v)
  \/ DeleteLock \/ HostCrash \/ Remount
  \/ Finished

\* Weak fairness of each fiber's own steps; of faults none.  The fork's hook is left to Lock.tla.
DeadFairness == \A w \in Workers, f \in Fibers : WF_vars(LockStep(w, f) \/ DeadStep(w, f))

DeadSpec == DeadInit /\ [][DeadNext]_vars
FairDeadSpec == DeadSpec /\ DeadFairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* What must hold.  Seen is what a reader of now would find, Durable every *)
(* set of records that a reader after a host crash might.                  *)
(***************************************************************************)
Seen == SetOf(FsSeen(fs, "live"))
Durable == {SetOf(c) : c \in FsDurable(fs, "live")}

DeadTypeOK ==
  /\ LockTypeOK
  /\ \A w \in Workers, f \in Fibers :
       pc[w][f] \in Rest => ~IsOpen(Data(w, f)) /\ ~IsOpen(Staging(w, f))

\* An acknowledged add survives, now and in every state that a crash may leave (D17, D32).
AcknowledgedSurvives ==
  LET acknowledged == {r \in Records : known[r] = "present"}
  IN  acknowledged \subseteq Seen /\ \A s \in Durable : acknowledged \subseteq s

\* A removed record stays removed, however often the removal had to be tried (D17, D19); and a
\* record that was seen to be missing after its add had failed does not appear (D29).
AbsentStaysAbsent ==
  LET absent == {r \in Records : known[r] = "absent"}
  IN  absent \cap Seen = {} /\ \A s \in Durable : absent \cap s = {}

\* Nothing is written to a file that no path reaches (D20: the ghost inode).
NoGhostWrite ==
  \A w \in Workers, f \in Fibers :
    pc[w][f] \in {"TruncateTail", "AppendRecord", "FsyncData"} => FsIsNamed(fs, Data(w, f), "live")

\* Earlier records stay, and in their order, whatever happens (D11, D16).
Order(c, rs) ==
  LET all == RecordsOf(c)
      first(k) == \A l \in 1..(k - 1) : all[l] # all[k]
      at == SelectSeq([k \in 1..Len(all) |-> k], LAMBDA k : all[k] \in rs /\ first(k))
  IN  [k \in 1..Len(at) |-> all[at[k]]]
EarlierIntact ==
  [][FsSeen(fs, "live") = FsSeen(fs', "live") \/
     LET rs == {r \in Records : known[r] = "present" /\ known'[r] = "present"}
     IN  Order(FsSeen(fs, "live"), rs) = Order(FsSeen(fs', "live"), rs)]_vars

(***************************************************************************)
(* Refinement: what a caller may rely on, on one page.                     *)
(***************************************************************************)
Abstract == INSTANCE DeadTasksSpec WITH seen <- Seen, durable <- Durable
AbstractSpec == Abstract!Spec
=============================================================================

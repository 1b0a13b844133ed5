------------------------------- MODULE Journal -------------------------------
(***************************************************************************)
(* The alternative to DeadTasks that keeps the live inode (D21): a removal *)
(* writes what is to stay into a journal (staging) with a trailer, makes   *)
(* journal and name durable, overwrites the live file in place, and does   *)
(* away with the journal.  Who finds a complete journal copies it back     *)
(* first; who finds an incomplete one throws it away.  Not the engine's    *)
(* way: it is here to be compared, its steps have a J in front.            *)
(*                                                                         *)
(*   JBegin -> recovery, if there is a journal: if it is complete          *)
(*             JSyncJournal JSyncDir JCut JFill JSyncLive, and in any case *)
(*             JVoid JSyncVoid JUnlink                                     *)
(*   add       (JCut to the last newline) JAppend JSyncLive                *)
(*   remove    JCreate JWrite JSyncJournal JSyncDir, JCut JFill JSyncLive, *)
(*             JVoid JSyncVoid JUnlink                                     *)
(*                                                                         *)
(* What TLC taught.  To unlink the journal is not enough: the unlink may   *)
(* be lost, or its maker may die before a directory fsync, and the old     *)
(* journal comes back over records that were added since.  So the journal  *)
(* is first made void, durably: truncated and fsynced.  And recovery may   *)
(* not take the journal at its word: its writer may have died before the   *)
(* fsync, and then the live file would be cut while the journal is in the  *)
(* cache only.  So recovery fsyncs journal and directory first.            *)
(*                                                                         *)
(* Left out: the lock (Lock.tla has it; here operations are one after the  *)
(* other, and a kill lets the next one begin), failed calls, bytes beyond  *)
(* the end.  Complete means that trailer, count and CRC fit: the trailer   *)
(* names the records that it closes, which is what a CRC is for.           *)
(***************************************************************************)
EXTENDS FileSystem

CONSTANTS Plan,      \* as in Lock.tla
          Budget     \* [kills, crashes]

VARIABLES fs, pc, job, left, known
vars == <<fs, pc, job, left, known>>

AllNames == {"live", "tmp"}
AllFds == {"d", "s"}

RECURSIVE Joined(_)
Joined(rs) == IF rs = << >> THEN "" ELSE Head(rs) \o Joined(Tail(rs))
Trailer(rs) == "=" \o Joined(rs)
Closed(rs) == Append(LinesOf(rs), Trailer(rs))
Cells == {Nul} \cup Newlines \cup {Front[r] : r \in Records}
Complete(c) == /\ c # << >>
               /\ c[Len(c)] \notin Cells   \* a trailer at all; most contents end here
               /\ c = Closed(RecordsOf(SubSeq(c, 1, Len(c) - 1)))

\* op and rec of the call; fill: cells to be written over the live file; recover: it is a recovery.
NoJob == [op |-> "", rec |-> "", fill |-> << >>, recover |-> FALSE]

Goto(l) == pc' = l
Same == UNCHANGED <<left, known>>

-----------------------------------------------------------------------------
\* Where recovery of a complete journal begins.
Recovery == "JSyncJournal"

\* The call, the lock, and the look for a journal in one: nobody else is inside.
JBegin ==
  /\ pc = "idle" /\ left.calls > 0
  /\ left' = [left EXCEPT !.calls = @ - 1]
  /\ \E c \in Plan[Len(Plan) - left.calls + 1] :
       LET j == FsSeen(fs, "tmp")
           again == FsExists(fs, "tmp") /\ Complete(j)
       IN  /\ job' = [op |-> c[1], rec |-> c[2], recover |-> FsExists(fs, "tmp"),
                      fill |-> IF again THEN SubSeq(j, 1, Len(j) - 1) ELSE << >>]
           /\ fs' = LET g == FsOpen(fs, "d", "live")
                    IN  IF FsExists(fs, "tmp") THEN FsOpen(g, "s", "tmp") ELSE g
           /\ Goto(IF again THEN Recovery ELSE IF FsExists(fs, "tmp") THEN "JVoid" ELSE "start")
  /\ UNCHANGED known

\* Where the operation proper begins.
TornLive == Whole(FsContent(fs, "d")) < Len(FsContent(fs, "d"))
Kept == SelectSeq(RecordsOf(FsContent(fs, "d")), LAMBDA r : r # job.rec)

JRepair == /\ pc = "start" /\ job.op = "add"
           /\ fs' = IF TornLive THEN FsTruncate(fs, "d", Whole(FsContent(fs, "d"))) ELSE fs
           /\ Goto("JAppend") /\ Same /\ UNCHANGED job

JAppend == /\ pc = "JAppend"
           /\ fs' = FsAppend(fs, "d", Line(job.rec))
           /\ known' = IF known[job.rec] = "absent" THEN [known EXCEPT ![job.rec] = "adding"]
                       ELSE known
           /\ Goto("JSyncLive") /\ UNCHANGED <<job, left>>

JCreate == /\ pc = "start" /\ job.op = "remove"
           /\ job' = [job EXCEPT !.fill = LinesOf(Kept)]
           /\ fs' = FsCreate(fs, "s", "tmp")
           /\ Goto("JWrite") /\ Same

\* The journal says what stays; once it may be complete on the disk, the removal may have happened.
JWrite == /\ pc = "JWrite"
          /\ fs' = FsAppend(fs, "s", Closed(RecordsOf(job.fill)))
          /\ known' = IF known[job.rec] = "absent" THEN known
                      ELSE [known EXCEPT ![job.rec] = "removing"]
          /\ Goto("JSyncJournal") /\ UNCHANGED <<job, left>>

JSyncJournal == /\ pc = "JSyncJournal" /\ fs' = FsSync(fs, "s") /\ Goto("JSyncDir")
                /\ Same /\ UNCHANGED job

JSyncDir == /\ pc = "JSyncDir" /\ fs' = FsSyncDir(fs) /\ Goto("JCut") /\ Same /\ UNCHANGED job

JCut == /\ pc = "JCut" /\ fs' = FsTruncate(fs, "d", 0) /\ Goto("JFill") /\ Same /\ UNCHANGED job

JFill == /\ pc = "JFill"
         /\ fs' = IF job.fill = << >> THEN fs ELSE FsAppend(fs, "d", job.fill)
         /\ job' = [job EXCEPT !.fill = << >>]
         /\ Goto("JSyncLive") /\ Same

JSyncLive == /\ pc = "JSyncLive" /\ fs' = FsSync(fs, "d")
             /\ Goto(IF job.op = "add" /\ ~job.recover THEN "end" ELSE "JVoid")
             /\ Same /\ UNCHANGED job

JVoid == /\ pc = "JVoid" /\ fs' = FsTruncate(fs, "s", 0) /\ Goto("JSyncVoid")
         /\ Same /\ UNCHANGED job

JSyncVoid == /\ pc = "JSyncVoid" /\ fs' = FsSync(fs, "s") /\ Goto("JUnlink")
             /\ Same /\ UNCHANGED job

JUnlink == /\ pc = "JUnlink" /\ fs' = FsClose(FsUnlink(fs, "tmp"), "s")
           /\ Goto(IF job.recover THEN "start" ELSE "end")
           /\ job' = [job EXCEPT !.recover = FALSE] /\ Same

\* The acknowledgement, or what a reader saw.
JEnd == /\ pc = "end" \/ (pc = "start" /\ job.op = "list")
        /\ known' = CASE job.op = "add" -> [known EXCEPT ![job.rec] = "present"]
                      [] job.op = "remove" -> [known EXCEPT ![job.rec] = "absent"]
                      [] OTHER -> [r \in Records |->
                           IF known[r] = "adding" /\ r \notin SetOf(FsContent(fs, "d"))
                           THEN "absent" ELSE known[r]]
        /\ fs' = FsCloseAll(fs, AllFds)
        /\ Goto("idle") /\ job' = NoJob /\ UNCHANGED left

JStep == JBegin \/ JRepair \/ JAppend \/ JCreate \/ JWrite \/ JSyncJournal \/ JSyncDir \/ JCut
         \/ JFill \/ JSyncLive \/ JVoid \/ JSyncVoid \/ JUnlink \/ JEnd

\* Between calls nothing is open and a kill changes nothing.
JKill == /\ pc # "idle" /\ left.kills > 0 /\ left' = [left EXCEPT !.kills = @ - 1]
         /\ fs' = FsCloseAll(fs, AllFds) /\ Goto("idle") /\ job' = NoJob /\ UNCHANGED known

JHostCrash == /\ left.crashes > 0 /\ left' = [left EXCEPT !.crashes = @ - 1]
              /\ fs' \in FsHostCrashes(fs) /\ Goto("idle") /\ job' = NoJob /\ UNCHANGED known

JFinished == pc = "idle" /\ left.calls = 0 /\ UNCHANGED vars

JInit ==
  LET c == Line("a") \o Line("b")
      dir == [live |-> 1, tmp |-> 0]
  IN  /\ fs = [FsEmpty EXCEPT !.ino[1] = [mem |-> c, want |-> <<c, << >> >>,
                                          disk |-> {<<c, << >> >>}],
                              !.dir = dir, !.dirs = {dir}, !.dwant = dir]
      /\ pc = "idle" /\ job = NoJob
      /\ left = [calls |-> Len(Plan), kills |-> Budget.kills, crashes |-> Budget.crashes]
      /\ known = [r \in Records |-> IF r \in {"a", "b"} THEN "present" ELSE "absent"]

JNext == JStep \/ JKill \/ JHostCrash \/ JFinished

-----------------------------------------------------------------------------
(***************************************************************************)
(* What a reader would find who recovers first: the journal's word if it   *)
(* is complete, else the live file.  (The sets of one element make TLC     *)
(* evaluate their element once.)                                           *)
(***************************************************************************)
Word(live, journal) ==
  IF Complete(journal) THEN SubSeq(journal, 1, Len(journal) - 1) ELSE live

Seen == UNION {SetOf(c) : c \in {Word(FsSeen(fs, "live"), FsSeen(fs, "tmp"))}}

Texts(n) == IF n = 0 THEN {<< >>} ELSE {m[1] : m \in fs.ino[n].disk}
Durable ==
  LET after(d) == {Word(p[1], p[2]) : p \in Texts(d.live) \X Texts(d.tmp)}
  IN  {SetOf(c) : c \in UNION {after(d) : d \in fs.dirs}}

JTypeOK == FsTypeOK(fs) /\ known \in [Records -> {"absent", "adding", "present", "removing"}]

\* Inside, what a reader would see is nobody's business: the lock keeps readers out.
AcknowledgedSurvives ==
  \A r \in Records : known[r] = "present" => r \in Seen /\ \A s \in Durable : r \in s
AbsentStaysAbsent ==
  \A r \in Records : known[r] = "absent" => r \notin Seen /\ \A s \in Durable : r \notin s

Abstract == INSTANCE DeadTasksSpec WITH seen <- Seen, durable <- Durable
AbstractSpec == Abstract!Spec
=============================================================================

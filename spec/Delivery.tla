------------------------------- MODULE Delivery -------------------------------
(***************************************************************************)
(* The leased delivery queue on disk: L2, L4, L6, L7, L10-L12.  One engine *)
(* step is one action here, under the same name; pc says which program     *)
(* stands before which step.  What items mean to callers (leases,          *)
(* receipts, order) is DeliverySpec.tla; that an admitted item always      *)
(* finds room is DeliverySpace.tla.                                        *)
(*                                                                         *)
(*   open     ReadMark SetMark ListQueue [ReadMeta ReadSegment]            *)
(*              closed cleanly in this boot:                               *)
(*                [TruncateSegment FsyncSegment]                           *)
(*              else (died, failed, crashed, or new):                      *)
(*                [CreateMeta WriteMeta FsyncMeta RenameMeta FsyncQueueDir *)
(*                 of the manifest as it is, if there is more to be seen   *)
(*                 than it selects]                                        *)
(*                publish, then the format marker:                         *)
(*                CreateMeta WriteMeta FsyncMeta RenameMeta FsyncQueueDir  *)
(*   publish  UnlinkSegment* (all but the selected generation)             *)
(*              FsyncQueueDir                                              *)
(*              (CreateSegment CopyItems FsyncSegment)* FsyncQueueDir      *)
(*              [UnlinkMeta] CreateMeta WriteMeta FsyncMeta RenameMeta     *)
(*              FsyncQueueDir, and when all is done UnlinkSegment* (old)   *)
(*   change   [CreateSegment FsyncQueueDir] AppendEvent FsyncSegment       *)
(*   close    ClearMark                                                    *)
(*                                                                         *)
(* What TLC taught.  L10 syncs the directory after the rename.  That is    *)
(* not enough: a crash may keep the rename and lose the names of the new   *)
(* segments, so the directory is synced before it as well.  A manifest     *)
(* that a recovery sees may be in the cache only, its maker died before    *)
(* the directory was synced: nothing may be cleaned before the selection   *)
(* is confirmed, and a plain sync of the directory does not confirm it if  *)
(* an earlier one failed, so the manifest is put in place again.  A torn   *)
(* tail cannot simply be cut off: behind a failed fsync the cache shows    *)
(* records that the disk will never get (W9), and behind a crash old bytes *)
(* may lie beyond the end (D29).  So whoever does not find the mark of a   *)
(* clean end copies all that is live into new inodes, as the dead-task     *)
(* store does (D32), and drops the torn record with it.                    *)
(*                                                                         *)
(* A record is a Line of FileSystem.tla: header and body are its front,    *)
(* the commit footer is its back.                                          *)
(*                                                                         *)
(* Merged, with the reason: the lock (Lock.tla has it; one instance, L3);  *)
(* opening and closing descriptions; reading a file in several pieces (its *)
(* owner is the only writer); a short write and its repetition; the end of *)
(* an open and the step that reaches it.  A failed read ends an open, as a *)
(* kill does.  A kill inside CopyItems or WriteMeta leaves a file that     *)
(* nothing selects.                                                        *)
(***************************************************************************)
EXTENDS FileSystem

CONSTANTS
  SeqMax,    \* sequence numbers are 1..SeqMax
  Room,      \* records per segment
  SegMax,    \* segments per generation (L6)
  \* how often these may happen:
  OpenMax, CompactMax, CloseMax, KillMax, CrashMax, FailMax, HurtMax,
  Hurts      \* what somebody else may do to the files

VARIABLES
  fs,    \* the file system
  pc,    \* program and next step
  mark,  \* the lock file: "clean" (in this boot), or anything else
  me,    \* the instance's memory
  left,  \* what is left of the numbers above
  \* history, read by no step:
  may,   \* per sequence: the states that a recovery may find
  given, \* sequence numbers that were accepted, or seen
  hurt   \* what somebody did to the files

vars == <<fs, pc, mark, me, left, may, given, hurt>>

Seqs == 1..SeqMax
GenMax == OpenMax + CompactMax
D(n) == <<"0", "1", "2", "3", "4", "5", "6", "7", "8", "9">>[n + 1]

SegName(g, n) == "g" \o D(g) \o "s" \o D(n)
Places == (0..GenMax) \X (1..SegMax)
Metas == {"manifest", "manifest.tmp", "format", "format.tmp"}
AllNames == Metas \cup {SegName(p[1], p[2]) : p \in Places}
AllFds == {"seg", "new", "meta"}

\* An item is pending (also one that waits for a retry), claimed, or quarantined for reason x or y.
Live == {"p", "c", "x", "y"}
States == Live \cup {"-"}   \* "-": not accepted yet, or acked

ItemRec(s, t) == "i" \o D(s) \o t     \* enqueue, and every record of a snapshot
EventRec(s, t) == "e" \o D(s) \o t    \* claim, retry, ack, quarantine
ManRec(g, b, h) == "m" \o D(g) \o D(b) \o D(h)   \* generation, boundary, high-water mark

LogRecords == UNION {{ItemRec(s, t), EventRec(s, t)} : s \in Seqs, t \in States}
Numbers == (0..GenMax) \X (0..SeqMax) \X (0..SeqMax)
ManRecords == {ManRec(m[1], m[2], m[3]) : m \in Numbers}
AllRecords == LogRecords \cup ManRecords \cup {"F"}

Meaning == [r \in LogRecords |-> CHOOSE m \in Seqs \X States :
                                   r \in {ItemRec(m[1], m[2]), EventRec(m[1], m[2])}]
IsItem == [r \in LogRecords |-> r = ItemRec(Meaning[r][1], Meaning[r][2])]
Manifest == [r \in ManRecords |-> CHOOSE m \in Numbers : ManRec(m[1], m[2], m[3]) = r]

-----------------------------------------------------------------------------
(***************************************************************************)
(* Reading.  Records are all of one length here; positions are cells.      *)
(***************************************************************************)
IsRec(c, j) == j \in 2..Len(c) /\ c[j] \in Newlines /\ c[j - 1] = Front[RecordOf[c[j]]]

\* How many valid records a content begins with, and which.
RECURSIVE GoodFrom(_, _)
GoodFrom(c, k) == IF IsRec(c, 2 * k + 2) THEN GoodFrom(c, k + 1) ELSE k
Good(c) == GoodFrom(c, 0)
Recs(c) == [j \in 1..Good(c) |-> RecordOf[c[2 * j]]]
Cut(c) == Len(c) > 2 * Good(c)

\* A valid record behind an invalid one: no crash makes this, so it is corruption (L4).
Later(c) == \E j \in (2 * Good(c) + 2)..Len(c) : IsRec(c, j)

RECURSIVE Joined(_, _)
Joined(cs, n) == IF n = 0 THEN << >> ELSE Joined(cs, n - 1) \o Recs(cs[n])

\* The last record of a sequence number decides.
LastAbout(rs, s) == {k \in 1..Len(rs) : Meaning[rs[k]][1] = s /\
                       \A l \in (k + 1)..Len(rs) : Meaning[rs[l]][1] # s}
StateOf(rs, s) ==
  IF LastAbout(rs, s) = {} THEN "-" ELSE Meaning[rs[CHOOSE k \in LastAbout(rs, s) : TRUE]][2]

\* An event is about an item that is there, and an item comes once.
Sound(rs) ==
  \A k \in 1..Len(rs) :
    IsItem[rs[k]] <=> StateOf(SubSeq(rs, 1, k - 1), Meaning[rs[k]][1]) = "-"

Top(ns) == IF ns = {} THEN 0 ELSE CHOOSE n \in ns : \A m \in ns : m <= n

Absent == [s \in Seqs |-> "-"]
Nothing(kind) == [kind |-> kind, gen |-> 0, segs |-> 0, last |-> 0, st |-> Absent, high |-> 0,
                  cut |-> FALSE]

Content(f, n) == f.ino[f.dir[n]].mem
Present(f) == {p \in Places : f.dir[SegName(p[1], p[2])] # 0}

LogView(f, m) ==
  LET present == {n \in 1..SegMax : <<m[1], n>> \in Present(f)}
      k == Cardinality(present)
      cs == [n \in present |-> Content(f, SegName(m[1], n))]
      rs == Joined(cs, k)
  IN  IF \/ present # 1..k
         \/ \E n \in 1..(k - 1) : Cut(cs[n]) \/ cs[n] = << >>
         \/ k > 0 /\ Later(cs[k])
         \/ Len(rs) < m[2]
         \/ \E j \in 1..Len(rs) : rs[j] \notin LogRecords
         \/ ~Sound(rs)
      THEN Nothing("corrupt")
      ELSE [kind |-> "ok", gen |-> m[1], segs |-> k, last |-> IF k = 0 THEN 0 ELSE Good(cs[k]),
            st |-> [s \in Seqs |-> StateOf(rs, s)],
            high |-> Max(m[3], Top({Meaning[rs[j]][1] : j \in 1..Len(rs)})),
            cut |-> k > 0 /\ Cut(cs[k])]

\* The record of the manifest, if that is what the file holds.
ManifestOf(f) ==
  LET c == IF f.dir["manifest"] = 0 THEN << >> ELSE Content(f, "manifest")
  IN  IF Len(c) = 2 /\ IsRec(c, 2) /\ RecordOf[c[2]] \in ManRecords
      THEN {Manifest[RecordOf[c[2]]]} ELSE {}

\* What an open would make of the directory.  No segment exists before the marker is durable.
Found(f) ==
  IF f.dir["format"] = 0 THEN Nothing(IF Present(f) = {} THEN "fresh" ELSE "corrupt")
  ELSE IF Content(f, "format") # Line("F") \/ ManifestOf(f) = {} THEN Nothing("corrupt")
  ELSE LogView(f, CHOOSE m \in ManifestOf(f) : TRUE)

-----------------------------------------------------------------------------
(***************************************************************************)
(* The instance's memory: the selected generation with its segments and    *)
(* the records in the last one, the items, the high-water mark; trusted,   *)
(* the mark said clean; new, the generation being made, and n, the segment *)
(* of it that comes next; why, what the publication is for; man, the       *)
(* manifest that is confirmed; ev, the event being written.                *)
(***************************************************************************)
NoMemory == [gen |-> 0, segs |-> 0, last |-> 0, st |-> Absent, high |-> 0, trusted |-> FALSE,
             new |-> 0, n |-> 0, why |-> "", man |-> "", ev |-> <<1, "-">>]
Load(v, m) == [m EXCEPT !.gen = v.gen, !.segs = v.segs, !.last = v.last, !.st = v.st,
                        !.high = v.high]

Goto(where) == pc' = where
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
Outcome(out) == IF out = "ok" THEN UNCHANGED left ELSE Spend("fails")
History == <<may, given, hurt>>
Poison == Goto("poisoned") /\ UNCHANGED me   \* nothing more until a recovery (L11)

\* The items of a snapshot in their order, and those of its n-th segment.
RECURSIVE Ordered(_, _)
Ordered(st, s) ==
  IF s = 0 THEN << >>
  ELSE Ordered(st, s - 1) \o (IF st[s] = "-" THEN << >> ELSE <<ItemRec(s, st[s])>>)
Items(st) == Ordered(st, SeqMax)
SegsFor(st) == (Len(Items(st)) + Room - 1) \div Room
Part(st, n) == SubSeq(Items(st), (n - 1) * Room + 1, Min(n * Room, Len(Items(st))))

Inactive(f, g) == {p \in Present(f) : p[1] # g}
FirstOf(ps) == CHOOSE p \in ps : \A q \in ps : p[1] < q[1] \/ (p[1] = q[1] /\ p[2] <= q[2])
Staging == IF SegsFor(me.st) = 0 THEN "man.CreateMeta" ELSE "stage.CreateSegment"
Retire(f, g) == IF Inactive(f, g) = {} THEN "idle" ELSE "retire.UnlinkSegment"

\* An open is over: what it found is what everybody will see from now on.
Settle(st, high) ==
  /\ may' = [s \in Seqs |-> {st[s]}]
  /\ given' = given \cup {s \in Seqs : s <= high}
  /\ UNCHANGED hurt

Init ==
  /\ fs = FsEmpty
  /\ pc = "down"
  /\ mark = "new"
  /\ me = NoMemory
  /\ left = [opens |-> OpenMax, compactions |-> CompactMax, closes |-> CloseMax, kills |-> KillMax,
             crashes |-> CrashMax, fails |-> FailMax, hurts |-> HurtMax]
  /\ may = [s \in Seqs |-> {"-"}]
  /\ given = {}
  /\ hurt = "no"

-----------------------------------------------------------------------------
(***************************************************************************)
(* Opening, and recovery of a poisoned instance.                           *)
(***************************************************************************)
ReadMark ==
  /\ pc = "down"
  /\ Spend("opens")
  /\ me' = [NoMemory EXCEPT !.trusted = mark = "clean", !.why = "open"]
  /\ Goto("SetMark") /\ UNCHANGED <<fs, mark, History>>

SetMark ==
  /\ pc = "SetMark"
  /\ mark' = "unfinished" /\ Goto("ListQueue") /\ UNCHANGED <<fs, me, left, History>>

\* The names decide first: nothing there yet, or a queue, or the remains of one.
ListQueue ==
  /\ \/ pc = "ListQueue" /\ UNCHANGED <<me, left>>
     \/ /\ pc = "poisoned" /\ Spend("opens")
        /\ me' = [NoMemory EXCEPT !.why = "open"]
  /\ fs' = FsCloseAll(fs, AllFds)
  /\ Goto(IF fs.dir["format"] # 0 THEN "ReadMeta"
          ELSE IF Present(fs) = {} THEN "man.CreateMeta" ELSE "corrupt")
  /\ UNCHANGED <<mark, History>>

\* The marker says that a manifest must be there (L10).
ReadMeta ==
  /\ pc = "ReadMeta"
  /\ Goto(IF Content(fs, "format") # Line("F") \/ ManifestOf(fs) = {} THEN "corrupt"
          ELSE "ReadSegment")
  /\ UNCHANGED <<fs, mark, me, left, History>>

\* All of the selected generation is validated before anything is cleaned.
NewNumber(m) == [m EXCEPT !.new = 1 + Top({m.gen} \cup {p[1] : p \in Present(fs)})]
Confirming(m) == [m EXCEPT !.why = "confirm", !.new = m.gen,
                           !.man = RecordOf[Content(fs, "manifest")[2]]]
ReadSegment ==
  /\ pc = "ReadSegment"
  /\ \E v \in {Found(fs)} :  \* bound, not defined: TLC's coverage repeats a definition at every use
       LET m == Load(v, me)
           confirms == ~me.trusted /\ Inactive(fs, v.gen) # {}
       IN  /\ me' = IF confirms THEN Confirming(m) ELSE NewNumber(m)
           /\ fs' = IF v.segs = 0 THEN fs ELSE FsOpen(fs, "seg", SegName(v.gen, v.segs))
           /\ IF v.kind = "corrupt" THEN Goto("corrupt") /\ UNCHANGED History
              ELSE IF confirms THEN Goto("man.CreateMeta") /\ UNCHANGED History
              ELSE IF ~me.trusted THEN Goto("clean") /\ UNCHANGED History
              ELSE IF v.cut THEN Goto("TruncateSegment") /\ UNCHANGED History
              ELSE Goto(Retire(fs, v.gen)) /\ Settle(v.st, v.high)
           /\ UNCHANGED <<mark, left>>

\* A torn last record under the mark of a clean end: not our doing, and repaired all the same (L4).
TruncateSegment ==
  /\ pc = "TruncateSegment"
  /\ fs' = FsTruncate(fs, "seg", 2 * me.last)
  /\ Goto("repair.FsyncSegment") /\ UNCHANGED <<mark, me, left, History>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Publishing a generation.  It begins with what earlier ones left: their  *)
(* end must be durable before new bytes are written, or three generations  *)
(* could be on the disk at once (L12).                                     *)
(***************************************************************************)
Compacts(out) ==
  /\ pc = "idle" /\ left.compactions > 0 /\ (out = "ok" \/ left.fails > 0)
  /\ left' = [left EXCEPT !.compactions = @ - 1, !.fails = IF out = "ok" THEN @ ELSE @ - 1]
Compacting == [NewNumber(me) EXCEPT !.why = "compact"]

UnlinkSegment(out) ==
  /\ \/ pc \in {"clean", "retire.UnlinkSegment"} /\ UNCHANGED me /\ Outcome(out)
     \/ Compacts(out) /\ me' = IF out = "ok" THEN Compacting ELSE me
  /\ Inactive(fs, me.gen) # {}
  /\ LET p == FirstOf(Inactive(fs, me.gen))
         f == FsUnlink(fs, SegName(p[1], p[2]))
     IN  /\ fs' = IF out = "ok" THEN f ELSE fs
         /\ Goto(CASE pc \in {"clean", "idle"} -> IF out = "ok" THEN "clean" ELSE "poisoned"
                   [] OTHER -> IF out = "ok" THEN Retire(f, me.gen) ELSE "idle")
  /\ UNCHANGED <<mark, History>>

CreateSegment(out) ==
  /\ \/ pc = "stage.CreateSegment"
     \/ pc = "idle" /\ me.segs < SegMax /\ (me.segs = 0 \/ me.last = Room)
  /\ IF out # "ok" THEN UNCHANGED fs /\ Poison
     ELSE IF pc = "idle"
     THEN /\ fs' = FsCreate(FsCloseAll(fs, {"seg"}), "seg", SegName(me.gen, me.segs + 1))
          /\ Goto("grow.FsyncQueueDir")
          /\ me' = [me EXCEPT !.segs = @ + 1, !.last = 0]
     ELSE /\ fs' = FsCreate(fs, "new", SegName(me.new, me.n))
          /\ Goto("CopyItems") /\ UNCHANGED me
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

CopyItems(out) ==
  /\ pc = "CopyItems"
  /\ IF out = "ok"
     THEN /\ fs' = FsAppend(fs, "new", LinesOf(Part(me.st, me.n)))
          /\ Goto("stage.FsyncSegment") /\ UNCHANGED me
     ELSE UNCHANGED fs /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

\* The manifest, then, at the end of an open that was not clean, the format marker: each in a new
\* inode, put in place by a rename.
Making == IF pc \in {"man.CreateMeta", "man.WriteMeta", "man.FsyncMeta", "man.RenameMeta"}
          THEN "manifest" ELSE "format"
Tmp(name) == name \o ".tmp"
At(step) == pc \in {"man." \o step, "fmt." \o step}
Then(step) == Goto((IF Making = "manifest" THEN "man." ELSE "fmt.") \o step) /\ UNCHANGED me

UnlinkMeta(out) ==
  /\ At("CreateMeta") /\ FsExists(fs, Tmp(Making))
  /\ IF out = "ok" THEN fs' = FsUnlink(fs, Tmp(Making)) /\ Then("CreateMeta")
     ELSE UNCHANGED fs /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

CreateMeta(out) ==
  /\ At("CreateMeta") /\ ~FsExists(fs, Tmp(Making))
  /\ IF out = "ok" THEN fs' = FsCreate(fs, "meta", Tmp(Making)) /\ Then("WriteMeta")
     ELSE UNCHANGED fs /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

MetaRecord ==
  IF Making = "format" THEN "F" ELSE IF me.why = "confirm" THEN me.man
  ELSE ManRec(me.new, Len(Items(me.st)), me.high)

WriteMeta(out) ==
  /\ At("WriteMeta")
  /\ IF out = "ok" THEN fs' = FsAppend(fs, "meta", Line(MetaRecord)) /\ Then("FsyncMeta")
     ELSE UNCHANGED fs /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

FsyncMeta(out) ==
  /\ At("FsyncMeta")
  /\ IF out = "ok" THEN fs' = FsClose(FsSync(fs, "meta"), "meta") /\ Then("RenameMeta")
     ELSE fs' \in FsSyncFails(fs, "meta") /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

RenameMeta(out) ==
  /\ At("RenameMeta")
  /\ IF out = "ok" THEN fs' = FsRename(fs, Tmp(Making), Making) /\ Then("FsyncQueueDir")
     ELSE UNCHANGED fs /\ Poison
  /\ Outcome(out) /\ UNCHANGED <<mark, History>>

\* The new generation is the one that changes go to.
Selected ==
  LET k == SegsFor(me.st)
  IN  [me EXCEPT !.gen = me.new, !.segs = k, !.last = IF k = 0 THEN 0 ELSE Len(Part(me.st, k))]
OpenLast(f, m) ==
  LET g == FsCloseAll(f, {"seg"})
  IN  IF m.segs = 0 THEN g ELSE FsOpen(g, "seg", SegName(m.gen, m.segs))

SyncsDir(out) ==
  LET f == FsSyncDir(fs)
  IN  /\ \/ pc \in {"names.FsyncQueueDir", "grow.FsyncQueueDir", "man.FsyncQueueDir",
                   "fmt.FsyncQueueDir"} /\ Outcome(out)
         \/ pc = "clean" /\ Inactive(fs, me.gen) = {} /\ Outcome(out)
         \/ Inactive(fs, me.gen) = {} /\ Compacts(out)
      /\ IF out # "ok" THEN fs' \in FsSyncDirFails(fs) /\ Poison /\ UNCHANGED History
         ELSE CASE pc \in {"clean", "idle"} ->
                     /\ fs' = f /\ Goto(Staging) /\ UNCHANGED History
                     /\ me' = [IF pc = "idle" THEN Compacting ELSE me EXCEPT !.n = 1]
                [] pc = "names.FsyncQueueDir" ->
                     fs' = f /\ Goto("man.CreateMeta") /\ UNCHANGED <<me, History>>
                [] pc = "grow.FsyncQueueDir" ->
                     fs' = f /\ Goto("idle") /\ UNCHANGED <<me, History>>
                [] pc = "man.FsyncQueueDir" /\ me.why = "confirm" ->
                     /\ fs' = f /\ Goto("clean") /\ UNCHANGED History
                     /\ me' = [NewNumber(me) EXCEPT !.why = "open"]
                [] pc = "man.FsyncQueueDir" /\ me.why # "confirm" ->
                     /\ me' = Selected /\ fs' = OpenLast(f, Selected) /\ UNCHANGED History
                     /\ Goto(IF me.why = "open" THEN "fmt.CreateMeta" ELSE Retire(f, me.new))
                [] pc = "fmt.FsyncQueueDir" ->
                     /\ fs' = f /\ Goto(Retire(f, me.gen)) /\ UNCHANGED me
                     /\ Settle(me.st, me.high)

FsyncQueueDir(out) == SyncsDir(out) /\ UNCHANGED mark

-----------------------------------------------------------------------------
(***************************************************************************)
(* Changes.  One event, one record, one fsync (L2, L5).  out = "part":     *)
(* some bytes were taken, then the call failed.                            *)
(***************************************************************************)
Allowed(s, t) ==
  \/ t = "p" /\ s = me.high + 1                             \* enqueue
  \/ t = "c" /\ me.st[s] \in {"p", "c"}                     \* claim; a lease may have run out
  \/ t \in {"p", "-", "x", "y"} /\ me.st[s] = "c"           \* retry, ack, quarantine
RecordFor(s, t) == IF s > me.high THEN ItemRec(s, t) ELSE EventRec(s, t)
Fits == me.segs > 0 /\ me.last < Room

AppendEvent(s, t, out) ==
  /\ pc = "idle" /\ Fits /\ Allowed(s, t)
  /\ IF out = "ok" THEN Goto("FsyncSegment") /\ me' = [me EXCEPT !.ev = <<s, t>>]
     ELSE Poison
  /\ fs' = CASE out = "ok" -> FsAppend(fs, "seg", Line(RecordFor(s, t)))
             [] out = "part" -> FsAppend(fs, "seg", <<Front[RecordFor(s, t)]>>)
             [] out = "fail" -> fs
  /\ may' = [may EXCEPT ![s] = @ \cup {t}]
  /\ Outcome(out) /\ UNCHANGED <<mark, given, hurt>>

\* The acknowledgement, after it the event is for good.
Noted ==
  LET s == me.ev[1]
  IN  /\ me' = [me EXCEPT !.st[s] = me.ev[2], !.last = @ + 1, !.high = Max(@, s)]
      /\ may' = [may EXCEPT ![s] = {me.ev[2]}]
      /\ given' = given \cup {s}
      /\ UNCHANGED hurt

SyncsSegment(out) ==
  LET fd == IF pc = "stage.FsyncSegment" THEN "new" ELSE "seg"
      f == FsSync(fs, fd)
  IN  /\ pc \in {"FsyncSegment", "stage.FsyncSegment", "repair.FsyncSegment"}
      /\ IF out # "ok" THEN fs' \in FsSyncFails(fs, fd) /\ Poison /\ UNCHANGED History
         ELSE CASE pc = "FsyncSegment" -> fs' = f /\ Noted /\ Goto("idle")
                [] pc = "stage.FsyncSegment" ->
                     /\ fs' = FsClose(f, "new") /\ UNCHANGED History
                     /\ me' = [me EXCEPT !.n = @ + 1]
                     /\ Goto(IF me.n < SegsFor(me.st) THEN "stage.CreateSegment"
                             ELSE "names.FsyncQueueDir")
                [] pc = "repair.FsyncSegment" ->
                     /\ fs' = f /\ UNCHANGED me /\ Goto(Retire(f, me.gen)) /\ Settle(me.st, me.high)
      /\ Outcome(out)

FsyncSegment(out) == SyncsSegment(out) /\ UNCHANGED mark

\* Only an instance that is sound says that all is well.
ClearMark ==
  /\ pc = "idle"
  /\ Spend("closes")
  /\ mark' = "clean" /\ fs' = FsCloseAll(fs, AllFds) /\ me' = NoMemory /\ Goto("down")
  /\ UNCHANGED History

-----------------------------------------------------------------------------
Kill ==
  /\ pc # "down"
  /\ Spend("kills")
  /\ fs' = FsCloseAll(fs, AllFds) /\ me' = NoMemory /\ Goto("down") /\ UNCHANGED <<mark, History>>

KillInWrite(s, t) ==
  /\ pc = "idle" /\ Fits /\ Allowed(s, t)
  /\ Spend("kills")
  /\ fs' = FsCloseAll(FsAppend(fs, "seg", <<Front[RecordFor(s, t)]>>), AllFds)
  /\ me' = NoMemory /\ Goto("down") /\ UNCHANGED <<mark, History>>

HostCrash ==
  /\ Spend("crashes")
  /\ fs' \in FsHostCrashes(fs)
  /\ mark' = "lost" /\ me' = NoMemory /\ Goto("down") /\ UNCHANGED History

\* Somebody else, while the queue is closed: garbage behind the last record, a damaged record in an
\* earlier segment, a manifest that is gone.
Foreign(h) ==
  /\ pc = "down" /\ mark = "clean" /\ hurt = "no"
  /\ \E v \in {Found(fs)} :
       LET i == fs.dir[SegName(v.gen, IF h = "tail" THEN v.segs ELSE 1)]
           c == IF h = "tail" THEN Append(fs.ino[i].mem, Front[ItemRec(1, "p")])
                ELSE [fs.ino[i].mem EXCEPT ![Len(fs.ino[i].mem)] = Nul]
       IN  /\ v.kind = "ok"
           /\ h = "tail" => v.segs > 0
           /\ h = "middle" => v.segs > 1
           /\ Spend("hurts")
           /\ fs' = IF h = "manifest" THEN FsSyncDir(FsUnlink(fs, "manifest"))
                    ELSE [fs EXCEPT !.ino[i] =
                            [mem |-> c, want |-> <<c, << >> >>, disk |-> {<<c, << >> >>}]]
           /\ hurt' = h /\ UNCHANGED <<pc, mark, me, may, given>>

\* Nothing to do; keeps deadlock checking on.
Done == pc \in {"idle", "down", "corrupt", "poisoned"} /\ UNCHANGED vars

Outcomes == {"ok", "fail"}
Writes == {"ok", "part", "fail"}

Next ==
  \/ ReadMark \/ SetMark \/ ListQueue \/ ReadMeta \/ ReadSegment \/ TruncateSegment \/ ClearMark
  \/ \E out \in Outcomes : \/ UnlinkSegment(out) \/ CreateSegment(out) \/ CopyItems(out)
                           \/ UnlinkMeta(out) \/ CreateMeta(out) \/ WriteMeta(out)
                           \/ FsyncMeta(out) \/ RenameMeta(out) \/ FsyncQueueDir(out)
                           \/ FsyncSegment(out)
  \/ \E s \in Seqs, t \in States, out \in Writes : AppendEvent(s, t, out)
  \/ \E s \in Seqs, t \in States : KillInWrite(s, t)
  \/ \E h \in Hurts : Foreign(h)
  \/ Kill
  \/ HostCrash
  \/ Done

DeliverySystem == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
  /\ FsTypeOK(fs)
  /\ mark \in {"new", "unfinished", "clean", "lost"}
  /\ DOMAIN me = DOMAIN NoMemory
  /\ may \in [Seqs -> SUBSET States \ {{}}]

\* Nothing accepted is lost, comes back or changes but as its events say; no crash makes corruption.
Promise ==
  hurt \in {"no", "tail"} =>
    LET v == Found(fs) IN v.kind # "corrupt" /\ \A s \in Seqs : v.st[s] \in may[s]

\* Damage that no crash makes is told, and nothing goes on over it; a manifest that is gone is no
\* empty queue (L4, L10).
DamageIsTold ==
  hurt \in {"middle", "manifest"} =>
    pc \in {"down", "SetMark", "ListQueue", "ReadMeta", "ReadSegment", "corrupt"}

\* The next number was never given before, an empty snapshot or not (L7).
FreshNumbers == pc = "idle" => \A s \in given : s <= me.high

\* Memory is what the disk says.
MemoryIsBacked == pc = "idle" /\ hurt \in {"no", "tail"} => me.st = Found(fs).st

\* Log bytes of every directory that there is or that a crash may leave (L12), in cells.
Longest(i) == Top({Len(fs.ino[i].mem)} \cup {Len(m[1]) : m \in fs.ino[i].disk})
RECURSIVE Sum(_, _)
Sum(dir, ps) == IF ps = {} THEN 0
                ELSE LET p == FirstOf(ps)
                         i == dir[SegName(p[1], p[2])]
                     IN  (IF i = 0 THEN 0 ELSE Longest(i)) + Sum(dir, ps \ {p})
DiskBound == \A d \in fs.dirs \cup {fs.dir} : Sum(d, Places) <= 2 * (2 * SegMax * Room)
=============================================================================

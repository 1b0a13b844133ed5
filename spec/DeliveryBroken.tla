---------------------------- MODULE DeliveryBroken ----------------------------
(***************************************************************************)
(* Designs of the queue that Delivery.tla rejects, the letter of L4 and    *)
(* L10 among them.  Each is one definition of Delivery, written again with *)
(* one thing changed; a model puts it in the place of the original (cfg:   *)
(* FsyncSegment <- FsyncSegmentLies), and TLC must find what it breaks.    *)
(***************************************************************************)
EXTENDS Delivery

\* The manifest is renamed before the segments are synced (L10).
FsyncSegmentNotStaged(out) ==
  /\ pc = "stage.FsyncSegment" /\ out = "ok"
  /\ fs' = FsClose(fs, "new")
  /\ me' = [me EXCEPT !.n = @ + 1]
  /\ Goto(IF me.n < SegsFor(me.st) THEN "stage.CreateSegment" ELSE "names.FsyncQueueDir")
  /\ UNCHANGED <<mark, left, History>>
FsyncSegmentEarlyRename(out) ==
  \/ FsyncSegmentNotStaged(out)
  \/ pc = "FsyncSegment" /\ out = "ok" /\ fs' = FsSync(fs, "seg") /\ Noted /\ Goto("idle")
     /\ UNCHANGED <<left, mark>>

\* The directory is synced after the rename only: the letter of L10.
SkipNames(next) == fs' = fs /\ Goto(next) /\ UNCHANGED <<me, mark, left, History>>
FsyncQueueDirLetter(out) ==
  \/ pc = "names.FsyncQueueDir" /\ out = "ok" /\ SkipNames("man.CreateMeta")
  \/ pc # "names.FsyncQueueDir" /\ SyncsDir(out) /\ UNCHANGED mark

\* ... or before it only.
FsyncQueueDirNotAfter(out) ==
  \/ pc = "man.FsyncQueueDir" /\ me.why # "confirm" /\ out = "ok"
     /\ me' = Selected /\ fs' = OpenLast(fs, Selected) /\ UNCHANGED <<mark, left, History>>
     /\ Goto(IF me.why = "open" THEN "fmt.CreateMeta" ELSE Retire(fs, me.new))
  \/ (pc # "man.FsyncQueueDir" \/ me.why = "confirm") /\ SyncsDir(out) /\ UNCHANGED mark

\* ... or not when a segment is added to the generation in use.
FsyncQueueDirNotGrown(out) ==
  \/ pc = "grow.FsyncQueueDir" /\ out = "ok" /\ SkipNames("idle")
  \/ pc # "grow.FsyncQueueDir" /\ SyncsDir(out) /\ UNCHANGED mark

\* ... or not before new bytes: what was unlinked may come back beside them (L12).
FsyncQueueDirNotCleaned(out) ==
  \/ pc \in {"clean", "idle"} /\ Inactive(fs, me.gen) = {} /\ out = "ok"
     /\ fs' = fs /\ Goto(Staging) /\ UNCHANGED <<mark, History>>
     /\ me' = [IF pc = "idle" THEN Compacting ELSE me EXCEPT !.n = 1]
     /\ IF pc = "idle" THEN Compacts(out) ELSE UNCHANGED left
  \/ pc \notin {"clean", "idle"} /\ SyncsDir(out) /\ UNCHANGED mark

\* The old generation goes before the new one is selected.
FsyncQueueDirDeletesFirst(out) ==
  \/ pc = "names.FsyncQueueDir" /\ out = "ok"
     /\ LET old == {SegName(p[1], p[2]) : p \in {q \in Present(fs) : q[1] = me.gen}}
        IN  fs' = FsSyncDir(FsUnlink(fs, CHOOSE n \in old : TRUE))
     /\ Goto("man.CreateMeta") /\ UNCHANGED <<me, mark, left, History>>
  \/ pc # "names.FsyncQueueDir" /\ SyncsDir(out) /\ UNCHANGED mark

\* No marker is asked for: without a manifest the directory is taken for an empty queue (L10).
ReadMetaNoMarker ==
  /\ pc = "ReadMeta"
  /\ IF ManifestOf(fs) = {} THEN Goto("man.CreateMeta") /\ me' = [me EXCEPT !.new = 0]
     ELSE Goto("ReadSegment") /\ UNCHANGED me
  /\ UNCHANGED <<fs, mark, left, History>>

\* The answer comes before the fsync (L2).
AppendEventUnsynced(s, t, out) ==
  /\ pc = "idle" /\ Fits /\ Allowed(s, t) /\ out = "ok"
  /\ fs' = FsAppend(fs, "seg", Line(RecordFor(s, t)))
  /\ me' = [me EXCEPT !.st[s] = t, !.last = @ + 1, !.high = Max(@, s)]
  /\ may' = [may EXCEPT ![s] = {t}]
  /\ given' = given \cup {s}
  /\ UNCHANGED <<pc, mark, left, hurt>>

\* The next number follows the highest one left in the log; the manifest's mark is not looked at.
ManRecZero(g, b, h) == "m" \o D(g) \o D(b) \o D(0)
NumbersZero == (0..GenMax) \X (0..SeqMax) \X {0}

\* A torn record is cut off in whatever segment it stands, and the rest is read on.
LogViewCuts(f, m) ==
  LET present == {n \in 1..SegMax : <<m[1], n>> \in Present(f)}
      k == Cardinality(present)
      cs == [n \in present |-> Content(f, SegName(m[1], n))]
      rs == SelectSeq(Joined(cs, k), LAMBDA r : r \in LogRecords)
      sane == {s \in Seqs : \E j \in 1..Len(rs) : Meaning[rs[j]][1] = s /\ IsItem[rs[j]]}
  IN  IF present # 1..k THEN Nothing("corrupt")
      ELSE [kind |-> "ok", gen |-> m[1], segs |-> k, last |-> IF k = 0 THEN 0 ELSE Good(cs[k]),
            st |-> [s \in Seqs |-> IF s \in sane THEN StateOf(rs, s) ELSE "-"],
            high |-> Max(m[3], Top({Meaning[rs[j]][1] : j \in 1..Len(rs)})),
            cut |-> k > 0 /\ Cut(cs[k])]

\* After a failed fsync the instance goes on (L11).
FsyncSegmentGoesOn(out) ==
  \/ pc = "FsyncSegment" /\ out = "fail" /\ Outcome(out)
     /\ fs' \in FsSyncFails(fs, "seg")
     /\ me' = [me EXCEPT !.st[me.ev[1]] = me.ev[2], !.last = @ + 1, !.high = Max(@, me.ev[1])]
     /\ Goto("idle") /\ UNCHANGED <<mark, History>>
  \/ out = "ok" /\ SyncsSegment(out) /\ UNCHANGED mark

\* A recovery trusts what it reads, repairs the tail in place and goes on: the letter of L4.
ReadSegmentInPlace ==
  LET v == Found(fs)
  IN  /\ pc = "ReadSegment"
      /\ me' = NewNumber(Load(v, me))
      /\ fs' = IF v.segs = 0 THEN fs ELSE FsOpen(fs, "seg", SegName(v.gen, v.segs))
      /\ IF v.kind = "corrupt" THEN Goto("corrupt") /\ UNCHANGED History
         ELSE IF v.segs > 0 THEN Goto("TruncateSegment") /\ UNCHANGED History
         ELSE Goto("idle") /\ Settle(v.st, v.high)
      /\ UNCHANGED <<mark, left>>

\* A recovery cleans at once, and the manifest that it saw may be in the cache only.
ReadSegmentUnconfirmed ==
  LET v == Found(fs)
  IN  /\ pc = "ReadSegment" /\ v.kind = "ok"
      /\ me' = NewNumber(Load(v, me))
      /\ fs' = IF v.segs = 0 THEN fs ELSE FsOpen(fs, "seg", SegName(v.gen, v.segs))
      /\ Goto("clean") /\ UNCHANGED <<mark, left, History>>

\* ... or syncs the directory first, which does not repeat what a failed sync has dropped.
ReadSegmentSynced ==
  LET v == Found(fs)
      f == FsSyncDir(fs)
  IN  /\ pc = "ReadSegment" /\ v.kind = "ok"
      /\ me' = NewNumber(Load(v, me))
      /\ fs' = IF v.segs = 0 THEN f ELSE FsOpen(f, "seg", SegName(v.gen, v.segs))
      /\ Goto("clean") /\ UNCHANGED <<mark, left, History>>

\* Staging begins beside what earlier ones left.
InactiveNever(f, g) == {}
=============================================================================

------------------------------ MODULE WalBroken ------------------------------
(***************************************************************************)
(* Designs of the WAL that Wal.tla rejects.  Each is one action of Wal,    *)
(* written again with one thing changed; a model puts it in the place of   *)
(* the original (cfg: FsyncWal <- FsyncWalUnrotated), and TLC must find    *)
(* the property that it breaks.                                            *)
(***************************************************************************)
EXTENDS Wal

\* A start keeps the first file that it wins as its own (the letter of W2).
Keep(w, f) ==
  [f EXCEPT !.fd[Own[w]] = f.fd[Cur[w]], !.fd[Cur[w]] = 0, !.lk = (@ \ {Cur[w]}) \cup {Own[w]}]
Keeping(w, f) ==
  LET got == Replay(FsContent(fs, Cur[w]))
  IN  IF Open(Own[w])
      THEN /\ Set(w, [me[w] EXCEPT !.got = got]) /\ UNCHANGED fs
           /\ Goto(w, IF got = {} THEN "merge.UnlinkWal" ELSE "merge.ReadWal") /\ UNCHANGED word
      ELSE fs' = Keep(w, f) /\ Onward(w, [me[w] EXCEPT !.live = got])

\* ... and appends where the last owner stopped, a fragment or not.
ReadWalKeepsTorn(w, out) ==
  \/ pc[w] = "start.ReadWal" /\ out = "ok" /\ Keeping(w, fs) /\ UNCHANGED <<left, twin>>
  \/ pc[w] = "merge.ReadWal" /\ Goto(w, "merge.CopyWal") /\ UNCHANGED <<fs, me, left, History>>

\* ... or cuts the fragment off and fsyncs file and directory first, in the same step (the letter
\* of W6).
ReadWalKeepsRepaired(w, out) ==
  LET f == FsSyncDir(FsSync(FsTruncate(fs, Cur[w], Whole(FsContent(fs, Cur[w]))), Cur[w]))
  IN  \/ pc[w] = "start.ReadWal" /\ out = "ok" /\ Keeping(w, f) /\ UNCHANGED <<left, twin>>
      \/ pc[w] = "merge.ReadWal" /\ Goto(w, "merge.CopyWal") /\ UNCHANGED <<fs, me, left, History>>

\* One history for all files, in the order of their names: a removal in a later file counts
\* against an addition in an earlier one (W12).
Later(w) == {n \in Names : fs.dir[n] # 0 /\ n > NameOf(Cur[w])}
Dropped(c, t) == \E j \in 2..Len(c) : Has(c, j, Rem[t]) /\ ~Alive(c, t)
ReadWalOneHistory(w, out) ==
  \/ /\ pc[w] = "start.ReadWal" /\ out = "ok"
     /\ LET got == {t \in Replay(FsContent(fs, Cur[w])) :
                      \A n \in Later(w) : ~Dropped(fs.ino[fs.dir[n]].mem, t)}
        IN  /\ Set(w, [me[w] EXCEPT !.got = got])
            /\ Goto(w, IF got = {} THEN "merge.UnlinkWal"
                       ELSE IF Open(Own[w]) THEN "merge.ReadWal" ELSE "start.CreateWal")
     /\ UNCHANGED <<fs, left, History>>
  \/ pc[w] = "merge.ReadWal" /\ Goto(w, "merge.CopyWal") /\ UNCHANGED <<fs, me, left, History>>

-----------------------------------------------------------------------------
\* The copy is not made durable before the original goes (W5).
CopyWalUnsynced(w, out) ==
  /\ pc[w] = "rotate.CopyWal" /\ out = "ok"
  /\ fs' = Adopt(FsAppend(fs, New[w], Lines(FsContent(fs, Own[w]), me[w].live)), w)
  /\ Set(w, [me[w] EXCEPT !.got = {}, !.more = {}, !.tail = {}])
  /\ Goto(w, "retire.UnlinkWal")
  /\ UNCHANGED <<left, History>>

\* A rotation reads everything back from the file and keeps no line in memory (W9).
FsyncWalDirForgets(w, out) ==
  /\ pc[w] \in {"new.FsyncWalDir", "settle.FsyncWalDir"} /\ out = "ok"
  /\ fs' = IF pc[w] = "new.FsyncWalDir" /\ ~Open(Own[w]) THEN Adopt(FsSyncDir(fs), w)
           ELSE FsSyncDir(fs)
  /\ IF pc[w] = "new.FsyncWalDir" /\ ~Open(Own[w]) THEN Goto(w, "idle") /\ UNCHANGED <<me, word>>
     ELSE IF pc[w] = "new.FsyncWalDir"
     THEN /\ Goto(w, "rotate.ReadWal") /\ Set(w, [me[w] EXCEPT !.got = @ \cup me[w].live])
          /\ UNCHANGED word
     ELSE Set(w, Covered(w)) /\ word' = Vouched(w) /\ Goto(w, "idle")
  /\ UNCHANGED <<left, twin>>

\* The new name is not made durable (W2) ...
OwnCheckUnsyncedName(w, out) ==
  /\ out = "ok" /\ pc[w] = "new.OwnCheck" /\ ~Open(Own[w]) /\ ~Open(Cur[w])
  /\ fs' = Adopt(fs, w) /\ Goto(w, "idle")
  /\ UNCHANGED <<me, left, History>>

\* ... or only at the end of the start, after the files that were merged into it are unlinked.
OwnCheckNameLast(w, out) ==
  /\ out = "ok" /\ pc[w] = "new.OwnCheck"
  /\ IF Open(Cur[w]) THEN fs' = Adopt(fs, w) /\ Goto(w, "merge.ReadWal")
     ELSE UNCHANGED fs /\ Goto(w, "new.FsyncWalDir")
  /\ UNCHANGED <<me, left, History>>

\* Nobody looks whether the path still names the new file once it is locked (W11).
OwnCheckNot(w, out) ==
  /\ out = "ok" /\ pc[w] = "new.OwnCheck"
  /\ Goto(w, "new.FsyncWalDir")
  /\ UNCHANGED <<fs, me, left, History>>

\* A rotation ends, and things are acknowledged, before the unlink of the old file is durable (W5).
CloseWalUnsettled(w) ==
  IF pc[w] # "retire.CloseWal" THEN (CloseClaimed(w) \/ CloseOther(w)) /\ UNCHANGED left
  ELSE /\ fs' = FsClose(fs, Cur[w]) /\ Goto(w, "idle") /\ Set(w, Covered(w)) /\ word' = Vouched(w)
       /\ UNCHANGED <<left, twin>>

\* The same after a rotation that failed and was given up.
CloseWalDropped(w) ==
  IF pc[w] # "drop.CloseWal" THEN (CloseClaimed(w) \/ CloseOther(w)) /\ UNCHANGED left
  ELSE /\ fs' = FsClose(fs, New[w]) /\ Goto(w, "idle")
       /\ Set(w, [me[w] EXCEPT !.got = {}, !.more = {}])
       /\ UNCHANGED <<left, History>>

\* Clean-up that frees the lock and then unlinks: here the first step of the two ...
UnlinkWalUnlocked(w, out) ==
  /\ pc[w] = "merge.UnlinkWal" /\ out = "ok"
  /\ fs' = FsUnlock(fs, Cur[w]) /\ Goto(w, "merge.CloseWal")
  /\ Set(w, [me[w] EXCEPT !.tidy = TRUE])
  /\ UNCHANGED <<left, History>>
\* ... and the second.
CloseWalUnlinks(w) ==
  IF pc[w] # "merge.CloseWal" THEN (CloseClaimed(w) \/ CloseOther(w)) /\ UNCHANGED left
  ELSE /\ fs' = LET f == Unlink(Cur[w]) IN FsClose(f, Cur[w])
       /\ Onward(w, me[w])
       /\ UNCHANGED <<left, twin>>

-----------------------------------------------------------------------------
\* Acknowledged while the line waits in a buffer of the process (W8).
AppendWalBuffered(w, r, out) ==
  /\ pc[w] = "idle" /\ Open(Own[w]) /\ ~me[w].sus /\ MayWrite(w, r) /\ out = "ok"
  /\ Set(w, Applied(w, r)) /\ Say(r, "acked", "removed")
  /\ UNCHANGED <<fs, pc, left, twin>>

\* A worker forgets that an append went wrong and leaves the fragment where it is (W6).
TruncateWalNot(w, out) ==
  /\ pc[w] = "undo.TruncateWal"
  /\ Set(w, [me[w] EXCEPT !.rec = "", !.good = 0])
  /\ Goto(w, "idle")
  /\ UNCHANGED <<fs, left, History>>

\* A failed fsync is reported, and the next one believed (W9).
FsyncWalBelieved(w, why, out) ==
  /\ pc[w] = "idle" /\ Open(Own[w]) /\ Dirty(w) /\ why = "sync"
  /\ IF out = "ok"
     THEN fs' = FsSync(fs, Own[w]) /\ Set(w, Covered(w)) /\ word' = Vouched(w)
     ELSE fs' \in FsSyncFails(fs, Own[w]) /\ UNCHANGED <<me, word>>
  /\ UNCHANGED <<pc, twin>> /\ Outcome(out)

\* A directory fsync that fails drops what it should have written, and the next one succeeds without
\* it.  Not a design but an assumption gone; Wal says which.
FsyncWalDirSticky(w, out) ==
  /\ pc[w] \in {"new.FsyncWalDir", "settle.FsyncWalDir"}
  /\ (out = "fail" => pc[w] = "settle.FsyncWalDir")
  /\ IF out = "fail" THEN fs' \in FsSyncDirFails(fs) /\ UNCHANGED <<pc, me, word>>
     ELSE IF pc[w] = "new.FsyncWalDir" /\ ~Open(Own[w])
     THEN fs' = Adopt(FsSyncDir(fs), w) /\ Goto(w, "idle") /\ UNCHANGED <<me, word>>
     ELSE IF pc[w] = "new.FsyncWalDir"
     THEN /\ fs' = FsSyncDir(fs) /\ UNCHANGED word
          /\ Set(w, [me[w] EXCEPT !.got = me[w].live])
          /\ Goto(w, IF me[w].live = {} THEN "rotate.FsyncWal" ELSE "rotate.ReadWal")
     ELSE fs' = FsSyncDir(fs) /\ Set(w, Covered(w)) /\ word' = Vouched(w) /\ Goto(w, "idle")
  /\ Outcome(out) /\ UNCHANGED twin

\* The child of a fork goes on with its parent's file and memory (W13).
ForkShares(w, child) ==
  /\ w # child /\ pc[w] = "idle" /\ pc[child] = "down" /\ Open(Own[w])
  /\ Spend("forks")
  /\ fs' = [fs EXCEPT !.fd[Own[child]] = fs.fd[Own[w]], !.lk = @ \cup {Own[child]}]
  /\ Goto(child, "idle") /\ Set(child, me[w])
  /\ UNCHANGED History

-----------------------------------------------------------------------------
(***************************************************************************)
(* What no order of the steps can give (WalSpec.tla): a task that a crash  *)
(* left in two files comes back after its removal was synced.              *)
(***************************************************************************)
NothingEverComesBack == \A t \in Tasks : word[t] = "buried" => t \notin Seen(fs)

(***************************************************************************)
(* Bounds of the search for counter-examples, and where it starts.         *)
(***************************************************************************)
NobodyCloses == \A w \in Workers : pc[w] \notin {"close.UnlinkWal", "close.CloseWal"}
NobodyDrops == \A w \in Workers : pc[w] # "dropped.FsyncWalDir"

\* An owner that died inside a write.
LeftTornSystem == InitFrom(LeftFile(FsEmpty, 1, <<Front[Put[TheTask]]>>)) /\ [][Next]_vars

\* One worker had added and removed a task, and another then added the same id again.
LeftTwoSystem ==
  /\ InitFrom(LeftFile(LeftFile(FsEmpty, 1, Line(Put[TheTask])),
                       2, Line(Put[TheTask]) \o Line(Rem[TheTask])))
  /\ [][Next]_vars
=============================================================================

--------------------------------- MODULE Wal ---------------------------------
(***************************************************************************)
(* The tasks WAL on disk: every worker writes a file of its own, under its *)
(* own flock.  Requirements W2-W12.  One engine step is one action here,   *)
(* under the same name and with the worker as its argument; pc[w] says     *)
(* which program it stands in and which step comes next.                   *)
(*                                                                         *)
(*   create  CreateWal OwnTry OwnCheck FsyncWalDir                         *)
(*   start   ListWals, then for each file                                  *)
(*             ClaimOpen ClaimTry ClaimCheck ReadWal                       *)
(*             [create, the first time that something is to be kept]       *)
(*             ReadWal CopyWal FsyncWal UnlinkWal CloseWal                 *)
(*           and, if anything was unlinked, FsyncWalDir                    *)
(*   add     [create] AppendWal                                            *)
(*   remove  AppendWal                                                     *)
(*   sync    FsyncWal                                                      *)
(*   rotate  create ReadWal CopyWal FsyncWal, now the new file is the own  *)
(*           one, UnlinkWal CloseWal FsyncWalDir                           *)
(*   close   FsyncWal, then UnlinkWal if nothing is live, CloseWal         *)
(*                                                                         *)
(* Nobody ever appends to a file that another worker, or another boot, has *)
(* written: what is found is copied to a new inode and unlinked.  Every    *)
(* file is replayed on its own and the results are united (W12).           *)
(*                                                                         *)
(* When a step fails, the operation that took it raises.  Where pc stays,  *)
(* the next operation begins with the same step again: such a failure is a *)
(* stutter and has no transition of its own.                               *)
(*                                                                         *)
(* Merged, with the reason: an acknowledgement and the step that earns it  *)
(* (obligations then begin earlier, which is stricter); reading or copying *)
(* in several pieces what lies in one file (its owner is the only writer,  *)
(* and there is none while it is claimed); a fork and the closing of       *)
(* inherited descriptions in the child (they only keep a lock a moment     *)
(* longer, as if the parent lived on).  When to rotate is left open: any   *)
(* time, so every size limit is covered.  An interrupted or cancelled step *)
(* is one that failed.  A close that fails leaves what a kill leaves.      *)
(*                                                                         *)
(* Left out: dates and process ids in names (a name is a number, made once *)
(* while anything may still know it), payloads and due times (a re-add of  *)
(* a live id replaces nothing that is modelled), foreign files (never      *)
(* matched, so never touched), making directories (see DeadTasks).         *)
(***************************************************************************)
EXTENDS FileSystem

CONSTANTS
  Workers, Tasks,  \* strings
  Eager,           \* TRUE: fsync_frequency 0, an fsync before each acknowledgement (W9)
  \* how often these may happen; in guards, not in a CONSTRAINT, so that nothing is hidden:
  StartMax, RotationMax, ForkMax, KillMax, CrashMax,
  FailMax,         \* calls that fail or write short
  AgainMax         \* ids that are used again

VARIABLES
  fs,    \* the file system (FileSystem.tla)
  pc,    \* per worker: program and next step
  me,    \* per worker: what it has in memory, see NoMemory
  left,  \* what is left of these numbers
  \* history, written by the steps that earn or break a promise and read by no step:
  word,  \* what callers were told of each task (WalSpec.tla)
  twin   \* tasks that a crash, a start that failed, or a re-use left in two files

vars == <<fs, pc, me, left, word, twin>>

\* A line is an addition or a removal of a task.
Put == [t \in Tasks |-> "+" \o t]
Rem == [t \in Tasks |-> "-" \o t]
AllRecords == {Put[t] : t \in Tasks} \cup {Rem[t] : t \in Tasks}
TaskOf(r) == CHOOSE t \in Tasks : r \in {Put[t], Rem[t]}

\* The three descriptions that a worker may have open: its own file, one that is being made, and
\* one that is on its way out (claimed by a start, or replaced by a rotation).
Own == [w \in Workers |-> w \o ".own"]
New == [w \in Workers |-> w \o ".new"]
Cur == [w \in Workers |-> w \o ".cur"]
FdsOf(w) == {Own[w], New[w], Cur[w]}
AllFds == UNION {FdsOf(w) : w \in Workers}

Open(d) == fs.fd[d] # 0
NameOf(d) == CHOOSE n \in Names : fs.dir[n] = fs.fd[d]
IsNamed(d) == fs.fd[d] \in Named(fs.dir)
Unlink(d) == IF IsNamed(d) THEN FsUnlink(fs, NameOf(d)) ELSE fs

(***************************************************************************)
(* A worker's memory: todo, names listed and not yet claimed; got, tasks   *)
(* to be copied from a file, and more, those to be copied from memory;     *)
(* live, its tasks; tail, those whose line no fsync has covered, kept for  *)
(* W9; out, removals that no fsync has covered; rec, the line being        *)
(* written ("rest" when it is the end of a batch) and good, the length     *)
(* before it; sus, the file is suspect and a rotation comes first; tidy, a *)
(* start has unlinked something.                                           *)
(***************************************************************************)
NoMemory == [todo |-> {}, got |-> {}, more |-> {}, live |-> {}, tail |-> {}, out |-> {},
             rec |-> "", good |-> 0, sus |-> FALSE, tidy |-> FALSE]

\* Something was written that no fsync has covered.
Dirty(w) == me[w].tail # {} \/ me[w].out # {}

\* Last record of an id wins, inside one file.
Has(c, j, r) == c[j] = Back[r] /\ c[j - 1] = Front[r] /\ (j = 2 \/ c[j - 2] \in Newlines)
Alive(c, t) ==
  \E j \in 2..Len(c) : Has(c, j, Put[t]) /\ \A k \in (j + 1)..Len(c) : ~Has(c, k, Rem[t])
Replay(c) == {t \in Tasks : Alive(c, t)}

\* What a start would find now, were all workers dead.
In(f, n) == IF f.dir[n] = 0 THEN {} ELSE Replay(f.ino[f.dir[n]].mem)
Seen(f) == UNION {In(f, n) : n \in Names}
Doubles(f) == {t \in Tasks : \E m, n \in Names : m # n /\ t \in In(f, m) \cap In(f, n)}

\* Where the record that counts for t ends in c, 0 if there is none.
At(c, t) == LET js == {j \in 2..Len(c) : Has(c, j, Put[t])}
            IN  IF js = {} THEN 0 ELSE CHOOSE j \in js : \A k \in js : k <= j
FirstIn(c, ts) == CHOOSE t \in ts : \A u \in ts : At(c, t) <= At(c, u)

\* The lines of ts, in the order in which they stand in c.
RECURSIVE Lines(_, _)
Lines(c, ts) ==
  IF ts = {} THEN << >> ELSE LET t == FirstIn(c, ts) IN Line(Put[t]) \o Lines(c, ts \ {t})

Goto(w, where) == pc' = [pc EXCEPT ![w] = where]
Set(w, m) == me' = [me EXCEPT ![w] = m]
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
History == <<word, twin>>
Outcome(out) == IF out = "ok" THEN UNCHANGED left ELSE Spend("fails")

Budget == [starts |-> StartMax, rotations |-> RotationMax, forks |-> ForkMax, kills |-> KillMax,
           crashes |-> CrashMax, fails |-> FailMax, again |-> AgainMax]

TypeOK ==
  /\ FsTypeOK(fs)
  /\ \A w \in Workers : DOMAIN me[w] = DOMAIN NoMemory
  /\ \A w \in Workers : me[w].tail \subseteq me[w].live

Init ==
  /\ fs = FsEmpty
  /\ pc = [w \in Workers |-> "down"]
  /\ me = [w \in Workers |-> NoMemory]
  /\ left = Budget
  /\ word = [t \in Tasks |-> "new"]
  /\ twin = {}

-----------------------------------------------------------------------------
(***************************************************************************)
(* Start: claim what nobody owns, file by file in the order of names.      *)
(***************************************************************************)
NextFile(m) == IF m.todo # {} THEN "start.ClaimOpen"
               ELSE IF m.tidy THEN "start.FsyncWalDir" ELSE "idle"
First(ns) == CHOOSE n \in ns : \A k \in ns : n <= k

\* Once a start is over, all that it holds is durable and a sync has nothing to do.
Held(m) == [t \in Tasks |-> IF t \in m.live /\ word[t] = "acked" THEN "synced" ELSE word[t]]
Onward(w, m) == /\ Goto(w, NextFile(m)) /\ Set(w, [m EXCEPT !.got = {}])
                /\ word' = IF NextFile(m) = "idle" THEN Held(m) ELSE word

ListWals(w) ==
  /\ pc[w] = "down"
  /\ Spend("starts")
  /\ Onward(w, [NoMemory EXCEPT !.todo = {n \in Names : FsExists(fs, n)}])
  /\ UNCHANGED <<fs, twin>>

\* The name may be gone, or the file unreadable: then on to the next one (W14).
ClaimOpen(w, out) ==
  LET n == First(me[w].todo)
      m == [me[w] EXCEPT !.todo = @ \ {n}]
  IN  /\ pc[w] = "start.ClaimOpen"
      /\ IF FsExists(fs, n) /\ out = "ok"
         THEN /\ fs' = FsOpen(fs, Cur[w], n) /\ Goto(w, "start.ClaimTry") /\ Set(w, m)
              /\ UNCHANGED word
         ELSE UNCHANGED fs /\ Onward(w, m)
      /\ Outcome(out) /\ UNCHANGED twin

ClaimTry(w, out) ==
  /\ pc[w] = "start.ClaimTry"
  /\ IF FsLockFree(fs, Cur[w]) /\ out = "ok"
     THEN fs' = FsLock(fs, Cur[w]) /\ Goto(w, "start.ClaimCheck")
     ELSE UNCHANGED fs /\ Goto(w, "skip.CloseWal")
  /\ Outcome(out) /\ UNCHANGED <<me, History>>

\* A lock won on an unlinked file is worth nothing (W11).
ClaimCheck(w, out) ==
  /\ pc[w] = "start.ClaimCheck"
  /\ Goto(w, IF IsNamed(Cur[w]) /\ out = "ok" THEN "start.ReadWal" ELSE "skip.CloseWal")
  /\ Outcome(out) /\ UNCHANGED <<fs, me, History>>

(***************************************************************************)
(* Reading: a claimed file to learn what is live in it (a failure leaves   *)
(* it for a better day, W14), then again the lines to be copied.  After a  *)
(* failed fsync reading back proves nothing, so a rotation takes from the  *)
(* file only what an older fsync has covered, and the rest from memory.    *)
(***************************************************************************)
ReadWal(w, out) ==
  /\ pc[w] \in {"start.ReadWal", "merge.ReadWal", "rotate.ReadWal"}
  /\ IF out = "ok"
     THEN CASE pc[w] = "start.ReadWal" ->
                 LET got == Replay(FsContent(fs, Cur[w]))
                 IN  /\ Set(w, [me[w] EXCEPT !.got = got])
                     /\ Goto(w, IF got = {} THEN "merge.UnlinkWal"
                                ELSE IF Open(Own[w]) THEN "merge.ReadWal" ELSE "start.CreateWal")
            [] pc[w] = "merge.ReadWal" -> Goto(w, "merge.CopyWal") /\ UNCHANGED me
            [] pc[w] = "rotate.ReadWal" ->
                 LET got == me[w].got \cap Replay(FsContent(fs, Own[w]))
                 IN  /\ Set(w, [me[w] EXCEPT !.got = got])
                     /\ Goto(w, IF got \cup me[w].more = {} THEN "rotate.FsyncWal"
                                ELSE "rotate.CopyWal")
     ELSE /\ Goto(w, CASE pc[w] = "start.ReadWal" -> "skip.CloseWal"
                       [] pc[w] = "merge.ReadWal" -> "quit.CloseWal"
                       [] pc[w] = "rotate.ReadWal" -> "drop.UnlinkWal")
          /\ Set(w, [me[w] EXCEPT !.got = {}, !.more = {}])
  /\ Outcome(out) /\ UNCHANGED <<fs, History>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A new file: for a start that found something, for the first add, for a  *)
(* rotation.  Between creation and lock another worker's start may have    *)
(* taken the file, found it empty and unlinked it: then a new one is made, *)
(* without ever waiting (W11).  Its name is durable before anything        *)
(* else happens in it or on account of it (W2).                            *)
(***************************************************************************)
Unused == {n \in Names : /\ \A d \in fs.dirs \cup {fs.dir, fs.dwant} : d[n] = 0
                         /\ \A w \in Workers : n \notin me[w].todo}

CreateWal(w, out) ==
  /\ \/ pc[w] = "start.CreateWal" /\ Outcome(out)
     \/ pc[w] = "idle" /\ out = "ok" /\ IF Open(Own[w]) /\ ~me[w].sus THEN Spend("rotations")
                                        ELSE UNCHANGED left
  /\ IF out = "ok"
     THEN /\ Unused # {} /\ FreeInodes(fs) # {}
          /\ fs' = FsCreate(fs, New[w], First(Unused)) /\ Goto(w, "new.OwnTry")
     ELSE UNCHANGED fs /\ Goto(w, "quit.CloseWal")
  /\ UNCHANGED <<me, History>>

OwnTry(w, out) ==
  /\ pc[w] = "new.OwnTry"
  /\ IF FsLockFree(fs, New[w]) /\ out = "ok"
     THEN fs' = FsLock(fs, New[w]) /\ Goto(w, "new.OwnCheck")
     ELSE UNCHANGED fs /\ Goto(w, IF out = "ok" THEN "lost.CloseWal" ELSE "discard.UnlinkWal")
  /\ Outcome(out) /\ UNCHANGED <<me, History>>

OwnCheck(w, out) ==
  /\ pc[w] = "new.OwnCheck"
  /\ Goto(w, CASE out # "ok" -> "discard.UnlinkWal"
                [] IsNamed(New[w]) -> "new.FsyncWalDir"
                [] OTHER -> "lost.CloseWal")
  /\ Outcome(out) /\ UNCHANGED <<fs, me, History>>

\* The new file becomes the own one, and the own one, if any, the one on its way out.
Adopt(f, w) ==
  LET o == f.fd[Own[w]]
      g == [f EXCEPT !.fd[Own[w]] = f.fd[New[w]], !.fd[New[w]] = 0, !.lk = @ \ {New[w]}]
  IN  IF o = 0 THEN [g EXCEPT !.lk = @ \cup {Own[w]}]
      ELSE [g EXCEPT !.fd[Cur[w]] = o, !.lk = @ \cup {Own[w], Cur[w]}]

-----------------------------------------------------------------------------
(***************************************************************************)
(* Adding and removing.  Memory follows the file: it changes when the line *)
(* is written, whatever becomes of the fsync.                              *)
(***************************************************************************)
\* Callers may choose ids, and add a removed one again, in any worker (W12).  If its removal was not
\* yet durable, the old addition may come back beside the new one: a twin.
Again(r) == r = Put[TaskOf(r)] /\ word[TaskOf(r)] \in {"removed", "buried"}
MayWrite(w, r) == \/ r = Put[TaskOf(r)] /\ word[TaskOf(r)] = "new"
                  \/ Again(r) /\ left.again > 0
                  \/ r = Rem[TaskOf(r)] /\ TaskOf(r) \in me[w].live

\* The worker's memory once the line is written.
Applied(w, r) ==
  LET t == TaskOf(r)
      m == [me[w] EXCEPT !.rec = "", !.good = 0]
  IN  IF r = Put[t]
      THEN [m EXCEPT !.live = @ \cup {t}, !.tail = @ \cup {t}, !.out = @ \ {t}]
      ELSE [m EXCEPT !.live = @ \ {t}, !.tail = @ \ {t}, !.out = @ \cup {t}]
Say(r, added, removed) ==
  word' = [word EXCEPT ![TaskOf(r)] = IF r = Put[TaskOf(r)] THEN added ELSE removed]

\* A short write is written again from where it stopped; an error is taken back.
AppendWal(w, r, out) ==
  /\ \/ pc[w] = "idle" /\ Open(Own[w]) /\ ~me[w].sus /\ MayWrite(w, r)
     \/ pc[w] = "add.AppendWal" /\ me[w].rec = r /\ out # "short"
  /\ fs' = CASE out = "ok" -> FsAppend(fs, Own[w], IF pc[w] = "idle" THEN Line(r) ELSE <<Back[r]>>)
             [] out = "short" -> FsAppend(fs, Own[w], <<Front[r]>>)
             [] out = "fail" -> fs
  /\ IF out = "ok"
     THEN IF Eager
          THEN /\ Goto(w, "ack.FsyncWal") /\ Set(w, [Applied(w, r) EXCEPT !.rec = r])
               /\ Say(r, "open", "open")
          ELSE Goto(w, "idle") /\ Set(w, Applied(w, r)) /\ Say(r, "acked", "removed")
     ELSE /\ Goto(w, IF out = "short" THEN "add.AppendWal" ELSE "undo.TruncateWal")
          /\ Set(w, [me[w] EXCEPT !.rec = r, !.good = IF pc[w] = "idle"
                                                     THEN Len(FsContent(fs, Own[w])) ELSE @])
          /\ Say(r, "open", "open")
  /\ left' = [left EXCEPT !.again = @ - (IF Again(r) THEN 1 ELSE 0),
                          !.fails = @ - (IF out = "ok" THEN 0 ELSE 1)]
  /\ left'.fails >= 0
  /\ twin' = IF Again(r) /\ word[TaskOf(r)] = "removed" THEN twin \cup {TaskOf(r)} ELSE twin

\* Back to the last good length.  If even that fails the file is suspect: nothing may follow a
\* fragment (W6).
TruncateWal(w, out) ==
  LET fd == IF Open(New[w]) THEN New[w] ELSE Own[w]
  IN  /\ pc[w] = "undo.TruncateWal"
      /\ fs' = IF out = "ok" THEN FsTruncate(fs, fd, me[w].good) ELSE fs
      /\ Set(w, [me[w] EXCEPT !.rec = "", !.good = 0, !.got = {}, !.more = {},
                              !.sus = @ \/ (out # "ok" /\ fd = Own[w])])
      /\ Goto(w, IF fd = New[w] THEN "drop.UnlinkWal"
                 ELSE IF Open(Cur[w]) THEN "quit.CloseWal" ELSE "idle")
      /\ Outcome(out) /\ UNCHANGED History

-----------------------------------------------------------------------------
(***************************************************************************)
(* Copying live records into the own file (merging) or into the new one    *)
(* (rotation): those of the file in one batch, those of memory one by one. *)
(* A short write stops inside the last line.                               *)
(***************************************************************************)
Batch(w) ==
  IF pc[w] = "merge.CopyWal" THEN Lines(FsContent(fs, Cur[w]), me[w].got)
  ELSE IF me[w].got # {} THEN Lines(FsContent(fs, Own[w]), me[w].got)
  ELSE Line(Put[FirstIn(FsContent(fs, Own[w]), me[w].more)])

CopyWal(w, out) ==
  LET merging == pc[w] = "merge.CopyWal"
      fd == IF merging THEN Own[w] ELSE New[w]
      all == Batch(w)
      n == Len(all)
      rest == me[w].rec = "rest"
      m == [me[w] EXCEPT !.rec = "", !.good = 0]
      done == IF merging THEN m
              ELSE IF m.got # {} THEN [m EXCEPT !.got = {}]
              ELSE [m EXCEPT !.more = @ \ {FirstIn(FsContent(fs, Own[w]), @)}]
  IN  /\ pc[w] \in {"merge.CopyWal", "rotate.CopyWal"}
      /\ ~(rest /\ out = "short")
      /\ fs' = CASE out = "ok" -> FsAppend(fs, fd, IF rest THEN <<all[n]>> ELSE all)
                 [] out = "short" -> FsAppend(fs, fd, SubSeq(all, 1, n - 1))
                 [] out = "fail" -> fs
      /\ IF out = "ok"
         THEN /\ Set(w, done)
              /\ Goto(w, IF merging THEN "merge.FsyncWal"
                         ELSE IF done.more # {} THEN pc[w] ELSE "rotate.FsyncWal")
         ELSE /\ Set(w, [me[w] EXCEPT !.rec = "rest",
                                      !.good = IF rest THEN @ ELSE Len(FsContent(fs, fd))])
              /\ Goto(w, IF out = "short" THEN pc[w] ELSE "undo.TruncateWal")
      /\ Outcome(out) /\ UNCHANGED History

-----------------------------------------------------------------------------
\* All that the worker has acknowledged is durable now, and may be called so.
Covered(w) == [me[w] EXCEPT !.tail = {}, !.out = {}, !.rec = ""]
Vouched(w) ==
  [t \in Tasks |-> IF t \in me[w].live /\ word[t] = "acked" THEN "synced"
                   ELSE IF word[t] = "removed" /\ {v \in Workers : t \in me[v].out} = {w}
                   THEN "buried" ELSE word[t]]

(***************************************************************************)
(* fsync of a file.  One that fails may lose dirty data for good (W9): the *)
(* own file is suspect from then on, a new one is dropped, a start ends.   *)
(***************************************************************************)
FsyncWal(w, why, out) ==
  LET fd == IF pc[w] = "rotate.FsyncWal" THEN New[w] ELSE Own[w]
  IN  /\ \/ pc[w] = "idle" /\ Open(fd) /\ ~me[w].sus /\ Dirty(w)
         \/ pc[w] \in {"ack.FsyncWal", "merge.FsyncWal", "rotate.FsyncWal"} /\ why = "sync"
      /\ IF out # "ok" THEN fs' \in FsSyncFails(fs, fd)
         ELSE fs' = IF fd = New[w] THEN Adopt(FsSync(fs, fd), w) ELSE FsSync(fs, fd)
      /\ CASE pc[w] = "idle" /\ out = "ok" ->
                /\ Set(w, Covered(w)) /\ word' = Vouched(w)
                /\ Goto(w, IF why = "sync" THEN "idle"
                           ELSE IF me[w].live = {} THEN "close.UnlinkWal" ELSE "close.CloseWal")
           [] pc[w] = "ack.FsyncWal" /\ out = "ok" ->
                Set(w, Covered(w)) /\ Say(me[w].rec, "synced", "buried") /\ Goto(w, "idle")
           [] pc[w] \in {"idle", "ack.FsyncWal"} /\ out # "ok" ->
                Set(w, [me[w] EXCEPT !.sus = TRUE, !.rec = ""]) /\ Goto(w, "idle") /\ UNCHANGED word
           [] pc[w] = "merge.FsyncWal" ->
                /\ Set(w, [me[w] EXCEPT !.live = IF out = "ok" THEN @ \cup me[w].got ELSE @,
                                        !.got = {}])
                /\ Goto(w, IF out = "ok" THEN "merge.UnlinkWal" ELSE "quit.CloseWal")
                /\ UNCHANGED word
           [] pc[w] = "rotate.FsyncWal" ->
                /\ Set(w, IF out = "ok" THEN [me[w] EXCEPT !.tail = {}, !.sus = FALSE] ELSE me[w])
                /\ Goto(w, IF out = "ok" THEN "retire.UnlinkWal" ELSE "drop.UnlinkWal")
                /\ UNCHANGED word
      /\ Outcome(out) /\ UNCHANGED twin

(***************************************************************************)
(* A directory fsync makes names durable: that of a new file before        *)
(* anything relies on it, those of unlinked files before anything more is  *)
(* acknowledged.  That the next one is honest after one that failed is an  *)
(* assumption (on the file systems known, a failed one ends the mount):    *)
(* the model WalStickyDir shows what breaks without it.                    *)
(***************************************************************************)
FsyncWalDir(w, out) ==
  /\ \/ pc[w] \in {"new.FsyncWalDir", "start.FsyncWalDir"}
     \/ pc[w] \in {"settle.FsyncWalDir", "dropped.FsyncWalDir"} /\ out = "ok"
  /\ fs' = IF out # "ok" THEN fs
           ELSE IF pc[w] = "new.FsyncWalDir" /\ ~Open(Own[w]) THEN Adopt(FsSyncDir(fs), w)
           ELSE FsSyncDir(fs)
  /\ CASE pc[w] = "new.FsyncWalDir" /\ ~Open(Own[w]) ->
            /\ Goto(w, IF out # "ok" THEN "discard.UnlinkWal"
                       ELSE IF Open(Cur[w]) THEN "merge.ReadWal" ELSE "idle")
            /\ UNCHANGED <<me, word>>
       [] pc[w] = "new.FsyncWalDir" /\ Open(Own[w]) ->
            LET m == [me[w] EXCEPT !.got = me[w].live \ me[w].tail, !.more = me[w].tail]
            IN  /\ Goto(w, IF out # "ok" THEN "discard.UnlinkWal"
                           ELSE IF m.got # {} THEN "rotate.ReadWal"
                           ELSE IF m.more # {} THEN "rotate.CopyWal" ELSE "rotate.FsyncWal")
                /\ Set(w, IF out = "ok" THEN m ELSE me[w])
                /\ UNCHANGED word
       [] pc[w] = "settle.FsyncWalDir" ->
            Set(w, Covered(w)) /\ word' = Vouched(w) /\ Goto(w, "idle")
       [] pc[w] = "dropped.FsyncWalDir" -> Goto(w, "idle") /\ UNCHANGED <<me, word>>
       [] pc[w] = "start.FsyncWalDir" ->
            /\ Goto(w, IF out = "ok" THEN "idle" ELSE "quit")
            /\ Set(w, [me[w] EXCEPT !.tidy = FALSE])
            /\ word' = IF out = "ok" THEN Held(me[w]) ELSE word
  /\ Outcome(out) /\ UNCHANGED twin

\* Whether a close has nothing left to make durable.
Settled(w) == pc[w] = "idle" /\ Open(Own[w]) /\ ~me[w].sus /\ ~Dirty(w)

(***************************************************************************)
(* A file goes only when all that is live in it is durable elsewhere, or   *)
(* nothing is.  Failing is harmless where nothing is live.                 *)
(***************************************************************************)
UnlinkWal(w, out) ==
  /\ \/ pc[w] \in {"merge.UnlinkWal", "discard.UnlinkWal", "close.UnlinkWal"}
     \/ pc[w] \in {"retire.UnlinkWal", "drop.UnlinkWal"} /\ out = "ok"
     \/ Settled(w) /\ me[w].live = {}
  /\ fs' = IF out # "ok" THEN fs
           ELSE Unlink(CASE pc[w] \in {"merge.UnlinkWal", "retire.UnlinkWal"} -> Cur[w]
                         [] pc[w] \in {"drop.UnlinkWal", "discard.UnlinkWal"} -> New[w]
                         [] pc[w] \in {"close.UnlinkWal", "idle"} -> Own[w])
  /\ Goto(w, CASE pc[w] = "merge.UnlinkWal" -> IF out = "ok" THEN "merge.CloseWal" ELSE "quit"
                [] pc[w] = "retire.UnlinkWal" -> "retire.CloseWal"
                [] pc[w] = "drop.UnlinkWal" -> "drop.CloseWal"
                [] pc[w] = "discard.UnlinkWal" -> "discard.CloseWal"
                [] pc[w] \in {"close.UnlinkWal", "idle"} -> "close.CloseWal")
  /\ Set(w, [me[w] EXCEPT !.tidy = @ \/ (pc[w] = "merge.UnlinkWal" /\ out = "ok")])
  /\ Outcome(out) /\ UNCHANGED History

(***************************************************************************)
(* Closing frees the lock, so it comes last (W11).  A file that a failed   *)
(* rotation gave up may come back by a host crash, with copies in it:      *)
(* hence its unlink, too, is made durable before anything else is said.    *)
(***************************************************************************)
CloseClaimed(w) ==
  /\ pc[w] \in {"skip.CloseWal", "merge.CloseWal"}
  /\ fs' = FsClose(fs, Cur[w]) /\ Onward(w, me[w])
  /\ UNCHANGED twin

CloseOther(w) ==
  /\ UNCHANGED word
  /\ \/ /\ pc[w] = "lost.CloseWal"
        /\ fs' = FsClose(fs, New[w])
        /\ Goto(w, IF Open(Cur[w]) THEN "start.CreateWal" ELSE "idle") /\ UNCHANGED <<me, twin>>
     \/ /\ pc[w] = "retire.CloseWal"
        /\ fs' = FsClose(fs, Cur[w]) /\ Goto(w, "settle.FsyncWalDir") /\ UNCHANGED <<me, twin>>
     \/ /\ pc[w] = "drop.CloseWal"
        /\ fs' = FsClose(fs, New[w])
        /\ Goto(w, IF me[w].sus THEN "idle" ELSE "dropped.FsyncWalDir")
        /\ Set(w, [me[w] EXCEPT !.got = {}, !.more = {}]) /\ UNCHANGED twin
     \/ /\ pc[w] = "discard.CloseWal"
        /\ fs' = FsClose(fs, New[w])
        /\ Goto(w, IF Open(Cur[w]) THEN "quit.CloseWal" ELSE "idle") /\ UNCHANGED <<me, twin>>
     \/ /\ pc[w] = "close.CloseWal" \/ (Settled(w) /\ me[w].live # {})
        /\ fs' = FsClose(fs, Own[w]) /\ Goto(w, "down") /\ Set(w, NoMemory) /\ UNCHANGED twin
     \/ /\ pc[w] = "quit.CloseWal"
        /\ fs' = FsClose(fs, Cur[w]) /\ Goto(w, "quit") /\ Set(w, NoMemory)
        /\ twin' = twin \cup Doubles(fs)

CloseWal(w) == (CloseClaimed(w) \/ CloseOther(w)) /\ UNCHANGED left

\* A start that failed lets everything go, and its object is of no more use.  No step of a program.
Quit(w) ==
  /\ pc[w] = "quit"
  /\ fs' = FsCloseAll(fs, FdsOf(w)) /\ Goto(w, "down") /\ Set(w, NoMemory)
  /\ twin' = twin \cup Doubles(fs)
  /\ UNCHANGED <<left, word>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Faults.                                                                 *)
(***************************************************************************)
\* The kernel closes all; what it was given it keeps.  Only bytes that the kernel itself dropped
\* (a failed fsync that reverts its cache) go with the memory that still had them.
Kill(w) ==
  /\ pc[w] # "down"
  /\ Spend("kills")
  /\ fs' = FsCloseAll(fs, FdsOf(w)) /\ Goto(w, "down") /\ Set(w, NoMemory)
  /\ word' = [t \in Tasks |-> IF word[t] = "acked" /\ me[w].sus /\ t \in me[w].tail \ Seen(fs)
                              THEN "open" ELSE word[t]]
  /\ twin' = twin \cup Doubles(fs)

\* A recovered file is read and never appended to, so of its content only the valid records matter.
Readable(c) == LinesOf(RecordsOf(c))
Recovered(f) ==
  [f EXCEPT !.ino = [i \in Inodes |->
     LET c == Readable(f.ino[i].mem)
     IN  [mem |-> c, want |-> <<c, << >>>>, disk |-> {<<c, << >>>>}]]]

\* What a host crash leaves is on the disk, and what it took is gone: no question stays open.
HostCrash ==
  /\ Spend("crashes")
  /\ fs' \in {Recovered(f) : f \in FsHostCrashes(fs)}
  /\ pc' = [w \in Workers |-> "down"]
  /\ me' = [w \in Workers |-> NoMemory]
  /\ word' = [t \in Tasks |-> IF word[t] \in {"open", "acked", "removed"}
                              THEN IF t \in Seen(fs') THEN "synced" ELSE "buried"
                              ELSE word[t]]
  /\ twin' = twin \cup Doubles(fs')

\* The child drops all that it inherited, and has no file of its own until its first add (W13).
Fork(w, child) ==
  /\ w # child /\ pc[w] # "down" /\ pc[child] = "down"
  /\ Spend("forks")
  /\ Goto(child, "idle") /\ Set(child, NoMemory)
  /\ UNCHANGED <<fs, History>>

\* Nothing to do; keeps deadlock checking on.
Done == (\A w \in Workers : pc[w] \in {"idle", "down"}) /\ UNCHANGED vars

Outcomes == {"ok", "fail"}
Writes == {"ok", "short", "fail"}

Next ==
  \/ \E w \in Workers : ListWals(w) \/ CloseWal(w) \/ Quit(w) \/ Kill(w)
  \/ \E w \in Workers, out \in Outcomes : \/ ClaimOpen(w, out) \/ ClaimTry(w, out)
                                          \/ ClaimCheck(w, out) \/ ReadWal(w, out)
                                          \/ OwnTry(w, out) \/ OwnCheck(w, out)
                                          \/ CreateWal(w, out) \/ TruncateWal(w, out)
                                          \/ FsyncWalDir(w, out) \/ UnlinkWal(w, out)
  \/ \E w \in Workers, why \in {"sync", "close"}, out \in Outcomes : FsyncWal(w, why, out)
  \/ \E w \in Workers, out \in Writes : CopyWal(w, out)
  \/ \E w \in Workers, r \in AllRecords, out \in Writes : AppendWal(w, r, out)
  \/ \E w, child \in Workers : Fork(w, child)
  \/ HostCrash
  \/ Done

WalSystem == Init /\ [][Next]_vars

\* The same from a later day: a dead owner has left a file with one synced task.
LeftFile(f, n, cells) ==
  LET d == CHOOSE d \in Fds : TRUE
  IN  FsClose(FsSyncDir(FsSync(FsAppend(FsCreate(f, d, n), d, cells), d)), d)
TheTask == CHOOSE t \in Tasks : TRUE
InitFrom(f) ==
  /\ fs = f
  /\ pc = [w \in Workers |-> "down"]
  /\ me = [w \in Workers |-> NoMemory]
  /\ left = Budget
  /\ word = [t \in Tasks |-> IF t \in Seen(fs) THEN "synced" ELSE "new"]
  /\ twin = {}
LeftSystem == InitFrom(LeftFile(FsEmpty, 1, Line(Put[TheTask]))) /\ [][Next]_vars

-----------------------------------------------------------------------------
(***************************************************************************)
(* Invariants.                                                             *)
(***************************************************************************)
\* Memory still has what a failed fsync may have taken from the cache.
InMemory == UNION {IF me[w].sus THEN me[w].tail ELSE {} : w \in Workers}

\* W3, W8: an acknowledged task is there after any process crash.
NoAcknowledgedLoss == \A t \in Tasks : word[t] = "acked" => t \in Seen(fs) \cup InMemory

\* D2, W5: what was synced, and what a host crash left, is never lost again.
NoSyncedLoss == \A t \in Tasks : word[t] = "synced" => t \in Seen(fs) \cup InMemory

\* A removal that was synced is for good, but for the twins (WalSpec says why).
NothingComesBack == \A t \in Tasks : word[t] = "buried" /\ t \notin twin => t \notin Seen(fs)

\* Exactly the owner writes a file, under its lock (W2, W13).
Writing(w) == Open(Own[w]) \/ (Open(New[w]) /\ New[w] \in fs.lk)
OneWriter ==
  \A w \in Workers :
    /\ Open(Own[w]) => /\ Own[w] \in fs.lk
                       /\ \A d \in fs.lk : fs.fd[d] = fs.fd[Own[w]] => d = Own[w]
    /\ \A v \in Workers \ {w} : Open(Own[w]) => fs.fd[Own[v]] # fs.fd[Own[w]]

\* Nothing is acknowledged that was written to a file which no path reaches (W11).
NoGhostWrite == \A w \in Workers : pc[w] = "idle" /\ Open(Own[w]) => IsNamed(Own[w])

\* Rotation and merging lose nothing: what a worker holds, its own file or its memory has.
MemoryIsBacked ==
  \A w \in Workers :
    pc[w] = "idle" /\ Open(Own[w]) =>
      me[w].live \subseteq Replay(FsContent(fs, Own[w])) \cup me[w].tail

-----------------------------------------------------------------------------
(***************************************************************************)
(* Refinement.  The hands that have a task are the workers that have a     *)
(* file with it locked; the files decide, not the programs.                *)
(***************************************************************************)
Holders(i) == {w \in Workers : \E d \in FdsOf(w) : d \in fs.lk /\ fs.fd[d] = i}
AtMap ==
  [t \in Tasks |->
     UNION {IF fs.dir[n] = 0 THEN {} ELSE IF ~Alive(fs.ino[fs.dir[n]].mem, t) THEN {}
            ELSE IF Holders(fs.dir[n]) = {} THEN {"nobody"} ELSE Holders(fs.dir[n]) : n \in Names}]

\* Content of different inodes is lost or kept independently.
DiskMap ==
  [t \in Tasks |->
     (IF \E d \in fs.dirs : \E n \in Names :
           d[n] # 0 /\ \E m \in fs.ino[d[n]].disk : Alive(m[1], t) THEN {TRUE} ELSE {})
     \cup
     (IF \E d \in fs.dirs : \A n \in Names :
           d[n] = 0 \/ \E m \in fs.ino[d[n]].disk : ~Alive(m[1], t) THEN {FALSE} ELSE {})]


(* WalRefines.tla checks that this is a behaviour of WalSpec. *)
=============================================================================

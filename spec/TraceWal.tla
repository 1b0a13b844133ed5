------------------------------- MODULE TraceWal -------------------------------
(***************************************************************************)
(* What a trace of the engine shows of Wal.tla; see TraceDeadTasks for how *)
(* `lychgate trace` uses such a module, and for the parts of an event.     *)
(*                                                                         *)
(* A trace knows files by labels; the spec numbers names and uses a number *)
(* again when nobody can know the name any more.  `label` says which file  *)
(* a number stands for now.  The spec takes files in the order of their    *)
(* numbers, and new numbers from the least on; an engine takes them in the *)
(* order of names, which follows date and process id.  So where the spec   *)
(* picks the first of some numbers, the trace says which file it was.      *)
(***************************************************************************)
EXTENDS Wal, TLC

VARIABLE label

traced == <<vars, label>>

Labelled(x) == {n \in Names : label[n] = x}

\* In the place of Wal's First: the number of the file x where there is one, else the least.
Picked(ns, x) ==
  IF ns \cap Labelled(x) # {} THEN CHOOSE n \in ns \cap Labelled(x) : TRUE
  ELSE CHOOSE n \in ns : \A k \in ns : n <= k

\* What somebody sees who lists the directory and reads the files.
View == {<<label[n], FsSeen(fs, n)>> : n \in {k \in Names : FsExists(fs, k)}}

TraceInit(v) == Init /\ label = [n \in Names |-> ""] /\ v = {}

\* Where a worker stands, for explanations.
Stands(w, f) == pc[w]

YesNo(b) == IF b THEN "TRUE" ELSE "FALSE"
Files == {label[n] : n \in {k \in Names : FsExists(fs, k)}}

\* The record that an append is of: its last cell is a back.
Record(x) == RecordOf[x[Len(x)]]

\* Whether what is said of a step can be said of it at all; else the rest cannot be evaluated.
Sane(a, x) ==
  CASE a = "Return" -> Len(x) = 3 /\ x[2] \in Tasks \cup {""}
    [] a = "AppendWal" -> x # << >> /\ x[Len(x)] \in Newlines
    [] a \in {"ClaimOpen", "CreateWal"} -> x # << >>
    [] OTHER -> TRUE

\* What the call behind a step is given, and what it must give, in this state.
Answer(a, w, f, x) ==
  CASE a = "ListWals" -> IF Range(x) = Files THEN x ELSE <<"other files">>
    [] a = "ClaimOpen" -> <<x[1], YesNo(x[1] \in Files)>>
    [] a = "ClaimTry" -> <<YesNo(FsLockFree(fs, Cur[w]))>>
    [] a = "ClaimCheck" -> <<YesNo(IsNamed(Cur[w]))>>
    [] a = "OwnTry" -> <<YesNo(FsLockFree(fs, New[w]))>>
    [] a = "OwnCheck" -> <<YesNo(IsNamed(New[w]))>>
    [] a = "ReadWal" /\ pc[w] = "start.ReadWal" -> FsContent(fs, Cur[w])
    [] a = "ReadWal" /\ pc[w] = "merge.ReadWal" -> Lines(FsContent(fs, Cur[w]), me[w].got)
    [] a = "ReadWal" /\ pc[w] = "rotate.ReadWal" ->
         LET c == FsContent(fs, Own[w]) IN Lines(c, me[w].got \cap Replay(c))
    [] a = "CopyWal" -> LET b == Batch(w) IN IF me[w].rec = "rest" THEN <<b[Len(b)]>> ELSE b
    [] a = "AppendWal" -> IF pc[w] = "idle" THEN Line(Record(x)) ELSE <<Back[Record(x)]>>
    [] OTHER -> x

\* A new file gets the label that the trace has for it.
Agrees(a, w, f, x) ==
  label' = IF a # "CreateWal" \/ fs'.fd[New[w]] = fs.fd[New[w]] THEN label
           ELSE [n \in Names |-> IF fs'.dir[n] = fs'.fd[New[w]] THEN x[1]
                                 ELSE IF label[n] = x[1] THEN "" ELSE label[n]]

\* Steps that an operation leaves to the next one when they fail.
Postponed == {"retire.UnlinkWal", "drop.UnlinkWal", "settle.FsyncWalDir", "dropped.FsyncWalDir"}

\* A call has returned; x is its name, its task and its outcome.  What it promised is true now.
Told(w, f, x) ==
  /\ x[3] = "ok" => pc[w] \in {"idle", "down"} \cup Postponed
  /\ x[3] = "ok" /\ x[1] = "add" => word[x[2]] \in {"acked", "synced"}
  /\ x[3] = "ok" /\ x[1] = "remove" => word[x[2]] \in {"removed", "buried"}
  /\ x[3] = "ok" /\ x[1] \in {"sync", "close"} => ~Dirty(w)

\* A failure that the next operation repeats is a stutter of the spec.
Repeated(a, w) ==
  /\ pc[w] \in Postponed \/ (a = "CreateWal" /\ pc[w] = "idle")
  /\ UNCHANGED vars
=============================================================================

----------------------------- MODULE TraceDelivery -----------------------------
(***************************************************************************)
(* What a trace of the engine shows of Delivery.tla; see TraceDeadTasks    *)
(* for how `lychgate trace` uses such a module, and for the parts of an    *)
(* event.  Files go by the spec's own names.                               *)
(***************************************************************************)
EXTENDS Delivery, TLC

traced == vars

\* What somebody sees who reads the files now, and of the lock file whether it says "clean".
View ==
  {<<n, FsSeen(fs, n)>> : n \in {k \in Names : FsExists(fs, k)}}
  \cup {<<"lock", <<IF mark = "clean" THEN "clean" ELSE "dirty">> >>}

TraceInit(v) == Init /\ v = View

\* Where the instance stands, for explanations.
Stands(w, f) == pc

YesNo(b) == IF b THEN "TRUE" ELSE "FALSE"

\* The change that a record stands for.
Changed(x) == Meaning[RecordOf[x[Len(x)]]]

\* Whether what is said of a step can be said of it at all; else the rest cannot be evaluated.
Sane(a, x) ==
  CASE a \in {"AppendEvent", "KillInWrite"} ->
         x # << >> /\ x[Len(x)] \in Newlines /\ RecordOf[x[Len(x)]] \in LogRecords
    [] a = "Return" -> Len(x) = 3
    [] OTHER -> TRUE

\* What the call behind a step is given, and what it must give, in this state.
Answer(a, w, f, x) ==
  CASE a = "ReadMark" -> <<YesNo(mark = "clean")>>
    [] a = "ListQueue" -> IF Range(x) = {n \in Names : FsExists(fs, n)} THEN x
                          ELSE <<"other files">>
    [] a = "TruncateSegment" -> <<ToString(2 * me.last)>>
    [] a = "UnlinkSegment" -> LET p == FirstOf(Inactive(fs, me.gen)) IN <<SegName(p[1], p[2])>>
    [] a = "CreateSegment" /\ pc = "idle" -> <<SegName(me.gen, me.segs + 1)>>
    [] a = "CreateSegment" /\ pc # "idle" -> <<SegName(me.new, me.n)>>
    [] a = "CopyItems" -> LinesOf(Part(me.st, me.n))
    [] a = "AppendEvent" -> Line(RecordFor(Changed(x)[1], Changed(x)[2]))
    [] a \in {"UnlinkMeta", "CreateMeta"} -> <<Tmp(Making)>>
    [] a = "WriteMeta" -> Line(MetaRecord)
    [] a = "RenameMeta" -> <<Tmp(Making), Making>>
    [] OTHER -> x

Agrees(a, w, f, x) == TRUE

\* A call has returned; x is its name, what it was asked and its outcome.
Told(w, f, x) ==
  CASE x[3] = "ok" /\ x[1] = "close" -> pc = "down"
    [] x[3] = "ok" /\ x[1] # "close" -> pc = "idle"
    [] OTHER -> pc = "poisoned"
=============================================================================

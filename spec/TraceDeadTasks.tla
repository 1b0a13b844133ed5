---------------------------- MODULE TraceDeadTasks ----------------------------
(***************************************************************************)
(* What a trace of the engine shows of DeadTasks.tla.  `lychgate trace`    *)
(* makes a module of the traces and of the actions of DeadNext, and TLC    *)
(* looks for a behaviour of the spec that agrees with every event.         *)
(*                                                                         *)
(* Nothing about allowed steps stands here: the steps are the spec's own   *)
(* actions.  This module says what an observer sees of a state (View), of  *)
(* a step before it is taken (Answer) and of a step that was taken         *)
(* (Agrees), and which fault of the spec a failed call is (Failing).       *)
(*                                                                         *)
(* An event is <<action, worker, fiber, answer, view, how>>, where answer  *)
(* is a sequence of strings: what the call was given and what it gave.     *)
(* how is "ok", "fail" or "short" (a write that took less than given).     *)
(***************************************************************************)
EXTENDS DeadTasks, TLC

Missing == <<"-">>

Look(n) == IF ~FsExists(fs, n) THEN Missing
           ELSE IF n # "lock" THEN FsSeen(fs, n)
           ELSE IF FsSeen(fs, n) = Clean THEN Clean ELSE Dirty

\* What somebody sees who reads the three files now.  Never what the disk may hold of them.
View == [live |-> Look("live"), tmp |-> Look("tmp"), lock |-> Look("lock")]

\* All variables, those of the trace module included.
traced == vars

\* A store that shows v, all of it durable: where a trace may begin.
FsOf(v) ==
  LET file(c) == [mem |-> c, want |-> <<c, << >> >>, disk |-> {<<c, << >> >>}]
      at(n, c) == IF c = Missing THEN 0 ELSE n
      dir == [live |-> at(1, v.live), tmp |-> at(3, v.tmp), lock |-> at(2, v.lock)]
      put(f, n, c) == IF c = Missing THEN f ELSE [f EXCEPT !.ino[n] = file(c)]
  IN  [put(put(put(FsEmpty, 1, v.live), 2, v.lock), 3, v.tmp)
         EXCEPT !.dir = dir, !.dirs = {dir}, !.dwant = dir]

TraceInit(v) == LockInit(FsOf(v))

\* Where a fiber stands, for explanations.
Stands(w, f) == IF f = "" THEN pc[w] ELSE pc[w][f]

YesNo(b) == IF b THEN <<"TRUE">> ELSE <<"FALSE">>

\* Whether what is said of a step can be said of it at all; else the rest cannot be evaluated.
Sane(a, x) == a = "Return" => Len(x) = 3 /\ x[2] \in Records \cup {""}

\* What the call behind a step is given, and what it must give, in this state.
Answer(a, w, f, x) ==
  CASE a = "LockTry" -> YesNo(FsLockFree(fs, lock[w]))
    [] a = "CheckLock" -> YesNo(FsIsNamed(fs, lock[w], "lock"))
    [] a = "ReadMark" -> IF FsContent(fs, lock[w]) = Clean THEN Clean ELSE Dirty
    [] a = "CreateStaging" -> YesNo(~FsExists(fs, "tmp"))
    [] a = "OpenData" -> YesNo(FsExists(fs, "live"))
    [] a = "StatData" -> <<ToString(Len(FsContent(fs, Data(w, f))))>>
    [] a = "ReadTail" -> YesNo(Torn(FsContent(fs, Data(w, f))))
    [] a = "TruncateTail" -> <<ToString(job[w][f].end)>>
    [] a = "ReadLive" -> LET c == FsContent(fs, Data(w, f))
                             j == job[w][f]
                         IN  SubSeq(c, 1, IF j.mode = "verbatim" THEN j.end ELSE Len(c))
    [] a \in {"AppendRecord", "WriteStaging"} -> job[w][f].buf
    [] a \in {"Call", "Return"} -> x
    [] OTHER -> << >>

\* Which call begins is the caller's choice, and the trace says it.
Agrees(a, w, f, x) == a = "Call" => <<job'[w][f].op, job'[w][f].rec>> = x

\* A call has returned; x is its name, its record and its outcome.  What it promised is true now.
Told(w, f, x) ==
  /\ pc[w][f] = "idle"
  /\ x[3] = "ok" /\ x[1] = "add" => known[x[2]] = "present"
  /\ x[3] = "ok" /\ x[1] = "remove" => known[x[2]] = "absent"

\* The spec's action of a call that failed, or that wrote less than it was given.
Failing(a, w, f) ==
  /\ pc[w][f] = a
  /\ FailLock(w, f) \/ Fail(w, f) \/ FailClearMark(w, f) \/ FailClose(w, f) \/ FailFsync(w, f)
Shortened(a, w, f) == pc[w][f] = a /\ ShortWrite(w, f)
=============================================================================

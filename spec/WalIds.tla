-------------------------------- MODULE WalIds --------------------------------
(***************************************************************************)
(* Task ids (W4): <<stamp, draw>>.  The stamp is Lamport's clock: above    *)
(* the wall clock's value, above every id made here, above every id found  *)
(* in the files at the start.  The draw is random: two workers may see the *)
(* same clock and the same files, and a fork copies the clock.             *)
(*                                                                         *)
(* The wall clock jumps as it likes, forward and backward.  Files lose ids *)
(* (tasks end, a host crash takes what was not synced), so the stamp alone *)
(* cannot make an id unique, and the draw alone gives no order.            *)
(*                                                                         *)
(* Idealised: two draws are never equal (64 bits), which is what Draw says *)
(* with a counter.  Left out: ids that callers choose.                     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS Workers, MaxClock, MaxIds

VARIABLES
  clock,  \* the wall clock of the host
  last,   \* last[w]: the stamp of w's last id, or of the newest one it has seen
  up,     \* workers that run
  files,  \* ids in the WAL files
  seen,   \* history: seen[w], the newest stamp that w has met
  made,   \* history: all ids ever made
  count,  \* history: how many were made
  sorted  \* history: no id was made below one that its maker had met

vars == <<clock, last, up, files, seen, made, count, sorted>>

Max2(a, b) == IF a > b THEN a ELSE b
Newest(ids) ==
  IF ids = {} THEN 0 ELSE LET i == CHOOSE i \in ids : \A j \in ids : j[1] <= i[1] IN i[1]

TypeOK ==
  /\ clock \in 0..MaxClock
  /\ last \in [Workers -> 0..(MaxClock + MaxIds)] /\ seen \in [Workers -> 0..(MaxClock + MaxIds)]
  /\ files \subseteq made

Init ==
  /\ clock = 0
  /\ last = [w \in Workers |-> 0]
  /\ up = {}
  /\ files = {} /\ made = {} /\ count = 0
  /\ seen = last
  /\ sorted = TRUE

\* The clock is set, by time or by hand.
SetClock(c) ==
  /\ c # clock /\ count < MaxIds
  /\ clock' = c
  /\ UNCHANGED <<last, up, files, seen, made, count, sorted>>

\* What a start learns from the files.
Seed(w) == Newest(files)
StartWorker(w) ==
  /\ w \notin up
  /\ up' = up \cup {w}
  /\ last' = [last EXCEPT ![w] = Seed(w)]
  /\ seen' = [seen EXCEPT ![w] = Newest(files)]
  /\ UNCHANGED <<clock, files, made, count, sorted>>

StopWorker(w) ==
  /\ w \in up
  /\ up' = up \ {w}
  /\ last' = [last EXCEPT ![w] = 0]
  /\ seen' = [seen EXCEPT ![w] = 0]
  /\ UNCHANGED <<clock, files, made, count, sorted>>

ForkWorker(w, child) ==
  /\ w \in up /\ child \notin up
  /\ up' = up \cup {child}
  /\ last' = [last EXCEPT ![child] = last[w]]
  /\ seen' = [seen EXCEPT ![child] = seen[w]]
  /\ UNCHANGED <<clock, files, made, count, sorted>>

Stamp(w) == Max2(last[w] + 1, clock)
Draw == count + 1

MakeId(w) ==
  LET id == <<Stamp(w), Draw>>
  IN  /\ w \in up /\ count < MaxIds
      /\ last' = [last EXCEPT ![w] = id[1]]
      /\ files' = files \cup {id}
      /\ made' = made \cup {id}
      /\ count' = count + 1
      /\ sorted' = (sorted /\ id[1] > seen[w])
      /\ seen' = [seen EXCEPT ![w] = Max2(@, id[1])]
      /\ UNCHANGED <<clock, up>>

\* A task ends, or a host crash takes it: its id is in no file any more.
Forget(id) ==
  /\ id \in files
  /\ files' = files \ {id}
  /\ UNCHANGED <<clock, last, up, seen, made, count, sorted>>

Next ==
  \/ \E c \in 0..MaxClock : SetClock(c)
  \/ \E w \in Workers : StartWorker(w) \/ StopWorker(w) \/ MakeId(w)
  \/ \E w, child \in Workers : ForkWorker(w, child)
  \/ \E s \in 1..(MaxClock + MaxIds), d \in 0..MaxIds : Forget(<<s, d>>)

Spec == Init /\ [][Next]_vars

\* No id is ever made twice: not by two workers, a restart, a fork, or a clock that went backward.
NeverTwice == Cardinality(made) = count

\* Ids grow: what a worker makes is above all that it has met.
Grows == sorted
=============================================================================

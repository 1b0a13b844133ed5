-------------------------------- MODULE WalIds --------------------------------
(***************************************************************************)
(* Task ids (W4): <<stamp, draw>>.  The stamp is Lamport's clock: above    *)
(* the wall clock's value, above every id made here, above every id found  *)
(* in the files that a start takes over.  The draw is random: two workers  *)
(* may see the same clock and the same files, a fork copies the clock, and *)
(* a start does not read the files of workers that run: they are locked,   *)
(* and grow while it looks.                                                *)
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
  held,   \* held[w]: ids in the file of w
  free,   \* ids in files without an owner
  seen,   \* history: seen[w], the newest stamp that w has met
  made,   \* history: all ids ever made
  count,  \* history: how many were made
  sorted  \* history: no id was made below one that its maker had met

files == <<held, free>>
vars == <<clock, last, up, held, free, seen, made, count, sorted>>

Max2(a, b) == IF a > b THEN a ELSE b
Newest(ids) ==
  IF ids = {} THEN 0 ELSE LET i == CHOOSE i \in ids : \A j \in ids : j[1] <= i[1] IN i[1]

TypeOK ==
  /\ clock \in 0..MaxClock
  /\ last \in [Workers -> 0..(MaxClock + MaxIds)] /\ seen \in [Workers -> 0..(MaxClock + MaxIds)]
  /\ free \cup UNION {held[w] : w \in Workers} \subseteq made

Init ==
  /\ clock = 0
  /\ last = [w \in Workers |-> 0]
  /\ up = {}
  /\ held = [w \in Workers |-> {}] /\ free = {}
  /\ made = {} /\ count = 0
  /\ seen = last
  /\ sorted = TRUE

\* The clock is set, by time or by hand.
SetClock(c) ==
  /\ c # clock /\ count < MaxIds
  /\ clock' = c
  /\ UNCHANGED <<last, up, files, seen, made, count, sorted>>

\* A start takes over every file without an owner, and learns from it.
Seed(w) == Newest(free)
StartWorker(w) ==
  /\ w \notin up
  /\ up' = up \cup {w}
  /\ last' = [last EXCEPT ![w] = Seed(w)]
  /\ seen' = [seen EXCEPT ![w] = Newest(free)]
  /\ held' = [held EXCEPT ![w] = free] /\ free' = {}
  /\ UNCHANGED <<clock, made, count, sorted>>

StopWorker(w) ==
  /\ w \in up
  /\ up' = up \ {w}
  /\ last' = [last EXCEPT ![w] = 0]
  /\ seen' = [seen EXCEPT ![w] = 0]
  /\ free' = free \cup held[w] /\ held' = [held EXCEPT ![w] = {}]
  /\ UNCHANGED <<clock, made, count, sorted>>

\* The child has its parent's clock, and no file.
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
      /\ held' = [held EXCEPT ![w] = @ \cup {id}]
      /\ made' = made \cup {id}
      /\ count' = count + 1
      /\ sorted' = (sorted /\ id[1] > seen[w])
      /\ seen' = [seen EXCEPT ![w] = Max2(@, id[1])]
      /\ UNCHANGED <<clock, up, free>>

\* A task ends, or a host crash takes it: its id is in no file any more.
Forget(id) ==
  /\ id \in free \cup UNION {held[w] : w \in Workers}
  /\ free' = free \ {id}
  /\ held' = [w \in Workers |-> held[w] \ {id}]
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

----------------------------- MODULE DeliverySpec -----------------------------
(***************************************************************************)
(* What a caller may rely on from the delivery queue, in one page: L1, L5, *)
(* L7, L8.  No files here; every change is durable when it is answered.    *)
(*                                                                         *)
(* An item waits ("p"), is claimed ("c"), has been acked ("a") or is       *)
(* quarantined ("q"); the last two are its ends.  A claim counts up the    *)
(* item's attempts, and that number is the claim's receipt.  Consumers may *)
(* show it or not.  Without it, whoever was first may still finish after   *)
(* its lease ran out, also when the item was claimed again (the original's *)
(* rule).  With it, a late consumer is told.                               *)
(*                                                                         *)
(* Time is the wall clock, which may jump.  A lease or a delay of length n *)
(* that ends at u holds while u - 2n <= now < u.  The lower bound is there *)
(* because a clock that was set back would otherwise hold an item for as   *)
(* long as it had been wrong; a jump back by less than n changes nothing.  *)
(*                                                                         *)
(* Order: of the items that can be claimed, the one with the lowest        *)
(* number.  Numbers are given once.                                        *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Items,      \* 1..n, in the order of their numbers
          Consumers, Reasons,
          Lease, Delay, Latest,   \* lengths, and the last reading of the clock
          AttemptMax, JumpMax

VARIABLES now, jumps,
          item,   \* per number: [st, attempt, until, length, reason]
          next,   \* the number that the next item gets
          holds,  \* per consumer: claims that it has made, <<number, receipt>>
          ended   \* per number: <<receipt shown, attempt then>> of its end, if one was shown

vars == <<now, jumps, item, next, holds, ended>>

NoItem == [st |-> "-", attempt |-> 0, until |-> 0, length |-> 0, reason |-> ""]
Held(i, t) == i.until - 2 * i.length <= t /\ t < i.until
Available(s) == item[s].st \in {"p", "c"} /\ ~Held(item[s], now)
Choice == {s \in Items : Available(s) /\ \A r \in Items : r < s => ~Available(r)}

Init == /\ now = Lease /\ jumps = JumpMax
        /\ item = [s \in Items |-> NoItem] /\ next = 1
        /\ holds = [c \in Consumers |-> {}]
        /\ ended = [s \in Items |-> <<>>]

Enqueue == /\ next \in Items
           /\ item' = [item EXCEPT ![next].st = "p"] /\ next' = next + 1
           /\ UNCHANGED <<now, jumps, holds, ended>>

Claim(c, s) ==
  /\ s \in Choice /\ item[s].attempt < AttemptMax
  /\ item' = [item EXCEPT ![s] = [@ EXCEPT !.st = "c", !.attempt = @ + 1, !.until = now + Lease,
                                           !.length = Lease]]
  /\ holds' = [holds EXCEPT ![c] = @ \cup {<<s, item[s].attempt + 1>>}]
  /\ UNCHANGED <<now, jumps, next, ended>>

\* A consumer that holds claim h of an item acts on it; `shown`: with its receipt.
May(h, shown) == item[h[1]].st = "c" /\ (shown => h[2] = item[h[1]].attempt)
Ends(h, shown) ==
  ended' = [ended EXCEPT ![h[1]] = IF shown THEN <<h[2], item[h[1]].attempt>> ELSE << >>]

Ack(c, s, n, shown) ==
  /\ <<s, n>> \in holds[c] /\ May(<<s, n>>, shown)
  /\ item' = [item EXCEPT ![s].st = "a"] /\ Ends(<<s, n>>, shown)
  /\ UNCHANGED <<now, jumps, next, holds>>
Quarantine(c, s, n, shown, reason) ==
  /\ <<s, n>> \in holds[c] /\ May(<<s, n>>, shown)
  /\ item' = [item EXCEPT ![s].st = "q", ![s].reason = reason] /\ Ends(<<s, n>>, shown)
  /\ UNCHANGED <<now, jumps, next, holds>>
Retry(c, s, n, shown) ==
  /\ <<s, n>> \in holds[c] /\ May(<<s, n>>, shown)
  /\ item' = [item EXCEPT ![s].st = "p", ![s].until = now + Delay, ![s].length = Delay]
  /\ UNCHANGED <<now, jumps, next, holds, ended>>

Tick == now < Latest /\ now' = now + 1 /\ UNCHANGED <<jumps, item, next, holds, ended>>
Jump(t) == /\ jumps > 0 /\ jumps' = jumps - 1 /\ now' = t
           /\ UNCHANGED <<item, next, holds, ended>>

Next == \/ Enqueue \/ Tick
        \/ \E t \in 0..Latest : Jump(t)
        \/ \E c \in Consumers, s \in Items : Claim(c, s)
        \/ \E c \in Consumers, s \in Items, n \in 1..AttemptMax, shown \in BOOLEAN :
             Ack(c, s, n, shown) \/ Retry(c, s, n, shown)
        \/ \E c \in Consumers, s \in Items, n \in 1..AttemptMax, shown \in BOOLEAN, r \in Reasons :
             Quarantine(c, s, n, shown, r)
        \/ UNCHANGED vars

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Who showed a receipt ended no item that had been claimed again.
Fenced == \A s \in Items : ended[s] # << >> => ended[s][1] = ended[s][2]

\* However the clock jumped, no item is kept from everybody for longer than twice what was asked.
NotStarved == \A s \in Items : item[s].st \in {"p", "c"} /\ ~Available(s) =>
                                 item[s].until - now <= 2 * item[s].length

\* Numbers are given in order and once.
Numbered == \A s \in Items : item[s].st = "-" <=> s >= next

\* An end is for good, and a quarantine keeps its first reason (L8).
EndsStay ==
  [][\A s \in Items : item[s].st \in {"a", "q"} => item'[s] = item[s]]_vars

\* Oldest first, among those that can be claimed.
InOrder ==
  [][\A s \in Items : item'[s].attempt > item[s].attempt =>
       \A r \in Items : r < s => ~Available(r)]_vars

\* While no clock jumps, nobody claims what another has on a lease.
LeaseKept ==
  [][\A s \in Items : jumps = JumpMax /\ item'[s].attempt > item[s].attempt =>
       item[s].st = "p" \/ now >= item[s].until]_vars
=============================================================================

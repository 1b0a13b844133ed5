---------------------------- MODULE DeliverySpace ----------------------------
(***************************************************************************)
(* The arithmetic of room: L6, L7, L9, L12.  Sizes are small numbers, a    *)
(* log is a number of segments and the bytes in the last one, records are  *)
(* never split, and no file is looked at (Delivery.tla has the files).     *)
(* The quick model has the engine's own sizes and is walked beside it.     *)
(*                                                                         *)
(* The rule of admission.  Were every item quarantined for the longest     *)
(* reason and the queue compacted, then one more control record must fit.  *)
(* This suffices for ever: the snapshot packs items in their order, each   *)
(* into the last segment if it fits and into a new one if not (next fit),  *)
(* and with next fit, unlike other ways to pack, smaller or fewer items    *)
(* never take more segments.  So what is there now, packed, leaves that    *)
(* room as well.  And if a control record does not fit behind the log,     *)
(* there is something to reclaim: a log of items alone is packed already.  *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
  SegBytes, SegMax,   \* the limits (L6)
  ItemsMax,
  ItemBytes,          \* bytes of an item's record beside payload and reason
  ClaimBytes, RetryBytes,
  AckBytes,           \* of an ack; of a quarantine, beside the reason
  SpareBytes,         \* what admission counts for an item besides, so that there is less to compact
  ReasonMax,          \* bytes of the longest reason (L8)
  Payloads, Reasons   \* sizes that callers try

VARIABLES
  items,   \* the items in their order: [size, st, reason]
  log,     \* <<segments, bytes in the last one>> of the active generation
  bytes    \* its bytes, without the gaps

vars == <<items, log, bytes>>

Empty == <<0, 0>>
TooMany == <<SegMax + 1, 0>>

\* A record behind a log; no segment takes a record that is larger than itself.
Put(l, z) ==
  IF z > SegBytes \/ l[1] > SegMax THEN TooMany
  ELSE IF l[1] > 0 /\ l[2] + z <= SegBytes THEN <<l[1], l[2] + z>>
  ELSE <<l[1] + 1, z>>
Within(l) == l[1] <= SegMax

RECURSIVE Pack(_, _)
Pack(l, zs) == IF zs = << >> THEN l ELSE Pack(Put(l, Head(zs)), Tail(zs))
RECURSIVE Total(_)
Total(zs) == IF zs = << >> THEN 0 ELSE Head(zs) + Total(Tail(zs))

Size(i) == ItemBytes + i.size + i.reason
Worst(i) == IF i.st = "q" THEN Size(i) ELSE ItemBytes + i.size + ReasonMax + SpareBytes
Sizes(is) == [k \in 1..Len(is) |-> Size(is[k])]
Worsts(is) == [k \in 1..Len(is) |-> Worst(is[k])]
QuarantineMax == AckBytes + ReasonMax
ControlMax == IF ClaimBytes > QuarantineMax THEN ClaimBytes ELSE QuarantineMax

\* L9.
Admits(is) == Within(Put(Pack(Empty, Worsts(is)), ControlMax))

\* A record goes behind the log, or behind a new generation if that is smaller and has room (L7).
Direct(z) == Within(Put(log, z))
Compacts(z) == /\ Total(Sizes(items)) < bytes
               /\ Within(Put(Pack(Empty, Sizes(items)), z))
HasRoom(z) == Direct(z) \/ Compacts(z)
Write(z) ==
  /\ HasRoom(z)
  /\ log' = Put(IF Direct(z) THEN log ELSE Pack(Empty, Sizes(items)), z)
  /\ bytes' = z + (IF Direct(z) THEN bytes ELSE Total(Sizes(items)))

Init == items = << >> /\ log = Empty /\ bytes = 0

Item(p) == [size |-> p, st |-> "p", reason |-> 0]
Enqueue(p) ==
  /\ Len(items) < ItemsMax
  /\ Admits(Append(items, Item(p)))
  /\ items' = Append(items, Item(p))
  /\ Write(Size(Item(p)))

\* A claim of an item whose lease has run out is a claim like any other; so histories have no end.
Claim(k) == /\ k <= Len(items) /\ items[k].st \in {"p", "c"}
            /\ items' = [items EXCEPT ![k].st = "c"] /\ Write(ClaimBytes)
Retry(k) == /\ k <= Len(items) /\ items[k].st = "c"
            /\ items' = [items EXCEPT ![k].st = "p"] /\ Write(RetryBytes)
Ack(k) == /\ k <= Len(items) /\ items[k].st = "c"
          /\ items' = SubSeq(items, 1, k - 1) \o SubSeq(items, k + 1, Len(items))
          /\ Write(AckBytes)
Quarantine(k, n) == /\ k <= Len(items) /\ items[k].st = "c"
                    /\ items' = [items EXCEPT ![k].st = "q", ![k].reason = n]
                    /\ Write(AckBytes + n)

\* A queue of quarantined items alone has nothing left to do.
Finished == (\A k \in 1..Len(items) : items[k].st = "q") /\ UNCHANGED vars

Next == \/ \E p \in Payloads : Enqueue(p)
        \/ \E k \in 1..ItemsMax : Claim(k) \/ Retry(k) \/ Ack(k)
        \/ \E k \in 1..ItemsMax, n \in Reasons : Quarantine(k, n)
        \/ Finished

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK == Len(items) <= ItemsMax /\ log[1] \in 0..SegMax /\ log[2] \in 0..SegBytes

\* Every record that an item may ask for finds room: it can always reach an end state.
NeverStuck ==
  \A k \in 1..Len(items) :
    /\ items[k].st \in {"p", "c"} => HasRoom(ClaimBytes)
    /\ items[k].st = "c" => HasRoom(RetryBytes) /\ HasRoom(QuarantineMax)

\* Reopened with the same limits, the queue is admitted again (L12).
StaysAdmitted == Admits(items)

\* The active generation and the largest one that may be staged beside it (L12).
DiskBound == Within(log) /\ Within(Pack(Empty, Sizes(items)))
=============================================================================

-------------------------- MODULE DeliverySpecBroken --------------------------
(* What the delivery queue must not do; each definition replaces one of DeliverySpec. *)
EXTENDS DeliverySpec

\* Receipts are not looked at.
MayUnfenced(h, shown) == item[h[1]].st = "c"
\* Quarantine is open to items that have ended.
MayTwice(h, shown) == item[h[1]].st \in {"c", "q"} /\ (shown => h[2] = item[h[1]].attempt)
\* A lease holds until its end, however far the clock was set back.
HeldLong(i, t) == t < i.until
\* Any item that can be claimed, not the oldest.
ChoiceAny == {s \in Items : Available(s)}
\* A recovery, or anybody, takes claims for expired.
HeldNever(i, t) == FALSE
=============================================================================

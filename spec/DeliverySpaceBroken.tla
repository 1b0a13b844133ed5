------------------------- MODULE DeliverySpaceBroken -------------------------
(* Rules of admission that do not suffice; each replaces Admits of DeliverySpace. *)
EXTENDS DeliverySpace

\* Whatever fits now (L9 left out).
AdmitsWhatFits(is) == Within(Pack(Empty, Sizes(is)))
\* No room for the longest reason.
AdmitsNoReason(is) == Within(Put(Pack(Empty, Sizes(is)), ControlMax))
\* No room for a control record.
AdmitsNoControl(is) == Within(Pack(Empty, Worsts(is)))
\* Bytes are counted, and not the gaps that records leave at the ends of segments.
AdmitsNoGaps(is) == /\ Total(Worsts(is)) + ControlMax <= SegMax * SegBytes
                    /\ \A k \in 1..Len(is) : Worst(is[k]) <= SegBytes
\* A generation is published only when there is nothing to fear: never for a retry history (L7).
CompactsAckedOnly(z) == /\ items = << >> /\ bytes > 0
                        /\ Within(Put(Empty, z))
=============================================================================

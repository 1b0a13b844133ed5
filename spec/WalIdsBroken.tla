---------------------------- MODULE WalIdsBroken ----------------------------
(* Ids that lack a part; a model puts each in the place of the original of WalIds.tla. *)
EXTENDS WalIds

NoDraw == 0                \* the stamp alone
NoSeed(w) == 0             \* the files are not asked
ClockOnly(w) == clock      \* neither files nor own ids are asked
=============================================================================

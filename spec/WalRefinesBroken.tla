-------------------------- MODULE WalRefinesBroken --------------------------
(* Designs of WalBroken.tla, seen as files that are no WAL any more in the sense of WalSpec.tla. *)
EXTENDS WalRefines, WalBroken
=============================================================================

------------------------------ MODULE WalRefines ------------------------------
(***************************************************************************)
(* Wal refines WalSpec.  The abstract variables are computed once for each *)
(* state and kept beside it, which adds no states (they are functions of   *)
(* the file system) and saves TLC from computing them once for each use.   *)
(***************************************************************************)
EXTENDS Wal

VARIABLES at, disk

Abstract == INSTANCE WalSpec WITH Nobody <- "nobody"

RefInit == Init /\ at = AtMap /\ disk = DiskMap
RefNext == Next /\ at' = AtMap' /\ disk' = DiskMap'
RefSpec == RefInit /\ [][RefNext]_<<vars, at, disk>>

WalIsKept == Abstract!Spec
PromiseIsKept == Abstract!TypeOK /\ Abstract!Promise
=============================================================================

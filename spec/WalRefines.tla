------------------------------ MODULE WalRefines ------------------------------
(***************************************************************************)
(* Wal refines WalSpec.  The abstract variables are computed once for each *)
(* state and kept beside it, which adds no states (they are functions of   *)
(* the file system) and saves TLC from computing them once for each use.   *)
(***************************************************************************)
EXTENDS Wal

VARIABLES at, disk

Abstract == INSTANCE WalSpec WITH Nobody <- "nobody"

RefNext == Next /\ at' = AtMap' /\ disk' = DiskMap'
RefSpec == Init /\ at = AtMap /\ disk = DiskMap /\ [][RefNext]_<<vars, at, disk>>

\* From a file that was left, whose task counts as synced: then only the steps can be asked for.
RefLeftSpec ==
  /\ InitFrom(LeftFile(FsEmpty, 1, Line(Put[TheTask])))
  /\ at = AtMap /\ disk = DiskMap
  /\ [][RefNext]_<<vars, at, disk>>

WalIsKept == Abstract!Spec
StepsAreKept == [][Abstract!Next]_<<word, at, disk, twin>>
PromiseIsKept == Abstract!TypeOK /\ Abstract!Promise
=============================================================================

---------------------------- MODULE MC_WalRefines ----------------------------
(* Constants of the models of WalRefines.tla; models/WalRefines*.cfg choose among them. *)
EXTENDS WalRefines, MC_Wal
=============================================================================

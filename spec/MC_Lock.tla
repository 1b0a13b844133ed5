------------------------------- MODULE MC_Lock -------------------------------
(***************************************************************************)
(* Constants of the models of Lock.tla; models/Lock*.cfg choose among them.*)
(***************************************************************************)
EXTENDS Lock

Holds(n) == [k \in 1..n |-> {<<"hold", "">>}]
Plan2 == Holds(2)
Plan3 == Holds(3)
Plan4 == Holds(4)
Inodes2 == 1..2
Inodes3 == 1..3
TwoLockFds == <<"k1", "k2">>
ThreeLockFds == <<"k1", "k2", "k3">>

NoFaults == [kills |-> 0, fails |-> 0, forks |-> 0, meddles |-> 0]
OneOfEach == [kills |-> 1, fails |-> 1, forks |-> 1, meddles |-> 1]
=============================================================================

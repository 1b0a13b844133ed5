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

NoFaults == [faults |-> 4, kills |-> 0, fails |-> 0, forks |-> 0, meddles |-> 0]
FailOnce == [NoFaults EXCEPT !.fails = 1]
ForkOnce == [NoFaults EXCEPT !.forks = 1]
MeddleOnce == [NoFaults EXCEPT !.meddles = 1]
KillFork == [NoFaults EXCEPT !.kills = 1, !.forks = 1]
TwoFaults == [faults |-> 2, kills |-> 1, fails |-> 1, forks |-> 1, meddles |-> 1]
OneOfEach == [TwoFaults EXCEPT !.faults = 4]
=============================================================================

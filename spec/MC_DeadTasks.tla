---------------------------- MODULE MC_DeadTasks ----------------------------
(***************************************************************************)
(* Constants of the models of DeadTasks.tla; the files in models/ choose.  *)
(***************************************************************************)
EXTENDS DeadTasks

Inodes4 == 1..4
Inodes5 == 1..5
Inodes6 == 1..6
OneLockFd == <<"k1">>
TwoLockFds == <<"k1", "k2">>
ThreeLockFds == <<"k1", "k2", "k3">>

Add(r) == <<"add", r>>
Remove(r) == <<"remove", r>>
List == <<"list", "">>
Prepare == <<"prepare", "">>
Any(rs) == {Add(r) : r \in rs} \cup {Remove(r) : r \in rs} \cup {List, Prepare}

PlanAny2 == <<Any(Records), Any(Records)>>
PlanAny3 == <<Any(Records), Any(Records), Any(Records)>>
PlanAdd == <<{Add("b")}>>
PlanAddAdd == <<{Add("b")}, {Add("c")}>>
PlanAddList == <<{Add("b")}, {List}>>
PlanAddRemove == <<{Add("b")}, {Remove("a")}>>
PlanRemoveAdd == <<{Remove("a")}, {Add("b")}>>
PlanRemoveRemove == <<{Remove("a")}, {Remove("a")}>>
PlanGhost == <<{List}, {Remove("a")}, {Add("b")}>>
PlanGhostRename == <<{List}, {Add("b"), Remove("a")}, {Add("b")}, {Remove("a"), Remove("c")}>>
PlanFailListAdd == <<{Add("b")}, {List}, {Add("c")}>>
PlanOrphan == <<{Add("b")}, {Remove("c")}, {Remove("b")}>>
PlanPair == <<{Add("b"), Remove("a")}, {Add("c"), Remove("a"), Remove("b"), List}>>
PlanPair3 == <<{Add("b"), Remove("a")}, {Add("c"), Remove("a"), Remove("b"), List},
               {Add("c"), List}>>
PlanEvery == <<{Add("b"), Remove("c")}, {Remove("a"), List}>>
PlanStart == <<{Prepare, Add("a"), Remove("a")}, {Add("b"), Remove("a"), List}>>
PlanLive == <<{Add("b"), Remove("a")}, {List}>>

NoFaults == [faults |-> 6, kills |-> 0, crashes |-> 0, remounts |-> 0, fails |-> 0, forks |-> 0,
             meddles |-> 0]
KillOnce == [NoFaults EXCEPT !.kills = 1]
FailOnce == [NoFaults EXCEPT !.fails = 1]
CrashOnly == [NoFaults EXCEPT !.crashes = 1]
RemountOnce == [NoFaults EXCEPT !.remounts = 1]
KillMeddle == [NoFaults EXCEPT !.kills = 1, !.meddles = 1]
KillCrash == [NoFaults EXCEPT !.kills = 1, !.crashes = 1]
FailCrash == [NoFaults EXCEPT !.fails = 1, !.crashes = 1]
KillFailCrash == [NoFaults EXCEPT !.kills = 1, !.crashes = 1, !.fails = 1]
KillFailCrash2 == [KillFailCrash EXCEPT !.crashes = 2]
OneOfEach == [faults |-> 6, kills |-> 1, crashes |-> 1, remounts |-> 1, fails |-> 1, forks |-> 1,
              meddles |-> 1]
OneFault == [OneOfEach EXCEPT !.faults = 1]
TwoFaults == [kills |-> 2, crashes |-> 2, remounts |-> 2, fails |-> 2, forks |-> 1, meddles |-> 1,
              faults |-> 2]
=============================================================================

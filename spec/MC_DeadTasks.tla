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

PlanAny2 == << Any(Records), Any(Records) >>
PlanAny3 == << Any(Records), Any(Records), Any(Records) >>
PlanMix3 == << {Add("b"), Remove("a")}, {Add("b"), Remove("a"), List}, {Add("b"), Remove("b")} >>

B(kills, crashes, remounts, fails, forks, meddles) ==
  [kills |-> kills, crashes |-> crashes, remounts |-> remounts, fails |-> fails,
   forks |-> forks, meddles |-> meddles]
NoFaults == B(0, 0, 0, 0, 0, 0)
KillCrash == B(1, 1, 0, 0, 0, 0)
CrashOnly == B(0, 1, 0, 0, 0, 0)
FailCrash == B(0, 1, 0, 1, 0, 0)
KillFailCrash == B(1, 1, 0, 1, 0, 0)
All == B(1, 1, 1, 1, 1, 1)
=============================================================================

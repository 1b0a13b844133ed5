-------------------------------- MODULE MC_Wal --------------------------------
(* Constants of the models of Wal.tla; models/Wal*.cfg choose among them. *)
EXTENDS WalBroken
N2 == 1..2
N3 == 1..3
N4 == 1..4
N5 == 1..5
N6 == 1..6
B(starts, kills, crashes, fails, rotations, forks) ==
  [starts |-> starts, kills |-> kills, crashes |-> crashes, fails |-> fails,
   rotations |-> rotations, forks |-> forks]
KillBudget == B(3, 1, 0, 0, 0, 0)
ForkBudget == B(1, 1, 0, 0, 0, 1)
CrashBudget == B(2, 0, 1, 0, 1, 0)
FaultBudget == B(2, 1, 1, 1, 1, 0)
TornBudget == B(2, 0, 1, 1, 0, 0)
RevertBudget == B(2, 1, 0, 2, 1, 0)
ReAddBudget == B(3, 2, 0, 0, 0, 0)
\* Budgets of the rejected designs: no more than each one needs.
K1F1 == B(2, 1, 0, 1, 0, 0)
K2 == B(3, 2, 0, 0, 0, 0)
K1C1 == B(2, 1, 1, 0, 0, 0)
K1C1F1 == B(2, 1, 1, 1, 0, 0)
C1 == B(1, 0, 1, 0, 0, 0)
C1R1 == B(1, 0, 1, 0, 1, 0)
C1R1F1 == B(1, 0, 1, 1, 1, 0)
C1F1 == B(1, 0, 1, 1, 0, 0)
F1 == B(1, 0, 0, 1, 0, 0)
F2 == B(1, 0, 0, 2, 0, 0)
R1 == B(1, 0, 0, 0, 1, 0)
S2 == B(2, 0, 0, 0, 0, 0)
K1S3 == B(3, 1, 0, 0, 0, 0)
K1 == B(2, 1, 0, 0, 0, 0)
Fork1 == B(1, 0, 0, 0, 0, 1)
=============================================================================

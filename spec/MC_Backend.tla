------------------------------ MODULE MC_Backend ------------------------------
(* BackendSpec alone: its promise holds of every behaviour that it allows. *)
EXTENDS BackendSpec

CONSTANTS a, b
MCIds == {a, b}

\* A backend that forgets the dead-task store's part when the task is removed.
RemoveFirst(i) ==
  /\ task' = [task EXCEPT ![i] = Cut(@)]
  /\ UNCHANGED <<dead, owed>>
=============================================================================

---------------------------- MODULE BackendBroken ----------------------------
(* A backend that breaks its promise; the model puts it in the place of RemoveTask. *)
EXTENDS BackendSpec

\* The caller believes that the dead-task store has the id, which it has not for good.
RemoveFirst(i) ==
  /\ task' = [task EXCEPT ![i] = Cut(@)]
  /\ UNCHANGED <<dead, owed>>
=============================================================================

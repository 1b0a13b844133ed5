------------------------------- MODULE WalSpec -------------------------------
(***************************************************************************)
(* What a caller may rely on from the tasks WAL, in one page.  No files    *)
(* here: a task is in the hands of the workers in at[t], or of Nobody (a   *)
(* file without an owner, which the next start takes), and disk[t] says    *)
(* what a host crash may make of it: there (TRUE), gone (FALSE).           *)
(*                                                                         *)
(*   word[t]    what callers were told last, and what that is worth        *)
(*   "new"      nothing                                                    *)
(*   "open"     an operation began, or failed: it may or may not show      *)
(*   "acked"    added: no process crash loses it (W3, W8)                  *)
(*   "synced"   and no host crash either (D2)                              *)
(*   "removed"  gone, unless a host crash comes before the next sync       *)
(*   "buried"   gone for good                                              *)
(*                                                                         *)
(* A crash in the middle of a rotation or a merge leaves the copied tasks  *)
(* twice.  Two workers may then start with one copy each, and such a twin  *)
(* runs twice, and comes back once: at least once is what W12 and U3 ask   *)
(* for, and no order of the steps avoids it (a copy must be durable before *)
(* its original goes).  An id that is used again before its removal was    *)
(* durable is a twin as well.  Nothing else may return, nothing is lost.   *)
(*                                                                         *)
(* One rule holds for all steps: the disk may catch up with what the       *)
(* system shows, never the reverse (disk' is a subset, unless the step     *)
(* itself changes the task).  Of an open task nothing is said.             *)
(***************************************************************************)
EXTENDS FiniteSets

CONSTANTS Workers, Tasks, Nobody
VARIABLES word, at, disk, twin

vars == <<word, at, disk, twin>>
Words == {"new", "open", "acked", "synced", "removed", "buried"}

TypeOK ==
  /\ word \in [Tasks -> Words]
  /\ at \in [Tasks -> SUBSET (Workers \cup {Nobody})]
  /\ disk \in [Tasks -> SUBSET BOOLEAN \ {{}}]
  /\ twin \subseteq Tasks

\* The promises, as they follow from the rules below.
Promise ==
  \A t \in Tasks :
    /\ word[t] \in {"acked", "synced"} => at[t] # {}
    /\ word[t] = "synced" => disk[t] = {TRUE}
    /\ word[t] = "buried" /\ t \notin twin => at[t] = {} /\ disk[t] = {FALSE}

Init ==
  /\ word = [t \in Tasks |-> "new"]
  /\ at = [t \in Tasks |-> {}]
  /\ disk = [t \in Tasks |-> {FALSE}]
  /\ twin = {}

Say(t, now) == word' = [word EXCEPT ![t] = now]
Still(t) == at'[t] = at[t] /\ disk'[t] \subseteq disk[t] /\ disk'[t] # {}
Others(t) == \A u \in Tasks \ {t} : word[u] = "open" \/ Still(u)

Add(w, t) ==
  /\ word[t] \in {"new", "open", "removed", "buried"} /\ Say(t, "acked")
  /\ w \in at'[t]
  /\ Others(t)
  /\ twin' = IF word[t] = "removed" THEN twin \cup {t} ELSE twin

Remove(w, t) ==
  /\ word[t] \in {"open", "acked", "synced"} /\ Say(t, "removed")
  /\ at'[t] = at[t] \ {w}
  /\ disk'[t] \subseteq disk[t] \cup {FALSE}
  /\ Others(t) /\ UNCHANGED twin

\* An addition or a removal begins without ending in the same step.
Try(t) == word[t] # "open" /\ Say(t, "open") /\ Others(t) /\ UNCHANGED twin

Sync(w, added, removed) ==
  /\ \A t \in added : word[t] \in {"acked", "open"} /\ w \in at[t] /\ disk'[t] = {TRUE}
  /\ \A t \in removed : word[t] \in {"removed", "open"} /\ (t \in twin \/ disk'[t] = {FALSE})
  /\ word' = [t \in Tasks |-> IF t \in added THEN "synced"
                              ELSE IF t \in removed THEN "buried" ELSE word[t]]
  /\ \A t \in Tasks : word[t] = "open" \/ Still(t)
  /\ UNCHANGED twin

\* Tasks change hands at a start; of a twin one copy may stay where it was.
Take(w) ==
  /\ \A t \in Tasks :
       \/ word[t] = "open"
       \/ Still(t)
       \/ /\ Nobody \in at[t]
          /\ \/ at'[t] = (at[t] \ {Nobody}) \cup {w}
             \/ t \in twin /\ at'[t] \in {at[t] \cup {w}, at[t] \ {Nobody}}
          /\ disk'[t] \subseteq disk[t] /\ disk'[t] # {}
  /\ UNCHANGED <<word, twin>>

\* A worker dies, or lets some tasks go: Nobody has them.
Leave(w) ==
  /\ \A t \in Tasks :
       \/ word[t] = "open"
       \/ Still(t)
       \/ /\ w \in at[t]
          /\ \/ at'[t] = (at[t] \ {w}) \cup {Nobody}
             \/ t \in twin' /\ at'[t] = at[t] \cup {Nobody}
          /\ disk'[t] = disk[t]
  /\ twin \subseteq twin' /\ UNCHANGED word

\* What a host crash leaves is on the disk, what it took is gone: every open question is settled.
Settled(t, found) ==
  CASE word[t] \in {"open", "acked", "removed"} -> IF found THEN "synced" ELSE "buried"
    [] OTHER -> word[t]
HostCrash ==
  /\ \A t \in Tasks :
       /\ \E b \in BOOLEAN : disk'[t] = {b} /\ (word[t] = "open" \/ b \in disk[t])
       /\ at'[t] = IF disk'[t] = {TRUE} THEN {Nobody} ELSE {}
  /\ word' = [t \in Tasks |-> Settled(t, disk'[t] = {TRUE})]
  /\ twin \subseteq twin'

\* Steps inside an operation: nothing to see, but open tasks may change.
Inside == (\A t \in Tasks : word[t] = "open" \/ Still(t)) /\ UNCHANGED <<word, twin>>

Next ==
  \/ \E w \in Workers : Take(w) \/ Leave(w)
  \/ \E w \in Workers, t \in Tasks : Add(w, t) \/ Remove(w, t)
  \/ \E t \in Tasks : Try(t)
  \/ \E w \in Workers, added, removed \in SUBSET Tasks : Sync(w, added, removed)
  \/ HostCrash
  \/ Inside

Spec == Init /\ [][Next]_vars
=============================================================================

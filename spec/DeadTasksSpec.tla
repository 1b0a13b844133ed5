---------------------------- MODULE DeadTasksSpec ----------------------------
(***************************************************************************)
(* What a caller may rely on, and nothing of how it is done.               *)
(*                                                                         *)
(*   known    per record, what callers were told:                          *)
(*              absent    never added, or removed and that acknowledged,   *)
(*                        or seen to be missing after its add had failed   *)
(*              adding    an add began to show and was not acknowledged    *)
(*              present   added, and that acknowledged                     *)
(*              removing  a removal began to show and was not acknowledged *)
(*   seen     the records that a reader would find now                     *)
(*   durable  each set of records that a reader may find after a crash     *)
(*                                                                         *)
(* The promise is one line, Promise: what is present is in seen and in all *)
(* of durable, what is absent in none, and of the rest nothing is said.    *)
(* That is D17.  It also says what a reader may NOT conclude (D34): a      *)
(* record that is seen while "adding" may be missing after a crash, one    *)
(* that is missing while "removing" may be back.  Only what was            *)
(* acknowledged is promised.                                               *)
(*                                                                         *)
(* An operation takes effect in one of its steps and has begun only when   *)
(* something can show.  So a time-out, and every failure before that, is   *)
(* no step here at all: nothing happened.                                  *)
(***************************************************************************)
CONSTANT Records
VARIABLES known, seen, durable

vars == <<known, seen, durable>>

Within(s) == /\ \A r \in Records : known[r] = "present" => r \in s
             /\ \A r \in s : known[r] # "absent"
Promise == Within(seen) /\ \A s \in durable : Within(s)

\* seen and durable change in any way that keeps the promise.  Each is named once: they stand for
\* expressions that cost time.
Possible == {s \in SUBSET Records : Within(s)}
Free == /\ seen' \in Possible'
        /\ durable' \in SUBSET Possible'

AddBegins(r) == known[r] = "absent" /\ known' = [known EXCEPT ![r] = "adding"] /\ Free
AddDone(r) == known[r] # "absent" /\ known' = [known EXCEPT ![r] = "present"] /\ Free
RemoveBegins(r) == known[r] # "absent" /\ known' = [known EXCEPT ![r] = "removing"] /\ Free
RemoveDone(r) == known' = [known EXCEPT ![r] = "absent"] /\ Free

\* D29: a reader that did not see a record whose add had failed has settled the matter.
Looked == /\ known' = [r \in Records |->
               IF known[r] = "adding" /\ r \notin seen THEN "absent" ELSE known[r]]
          /\ Free

\* Anything else, a crash included.
Work == UNCHANGED known /\ Free

Init == /\ known \in [Records -> {"absent", "present"}]
        /\ seen \in SUBSET Records
        /\ durable \in SUBSET (SUBSET Records)
        /\ Promise

Next == \/ Work
        \/ \E r \in Records : AddBegins(r) \/ AddDone(r) \/ RemoveBegins(r) \/ RemoveDone(r)
        \/ Looked

Spec == Init /\ [][Next]_vars
=============================================================================

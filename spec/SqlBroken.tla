------------------------------ MODULE SqlBroken ------------------------------
(***************************************************************************)
(* Backends that Sql.tla rejects, one action each; a model puts it in the  *)
(* place of the original (cfg: Finish <- FinishUnfenced).                  *)
(***************************************************************************)
EXTENDS Sql

\* Claim: rows are read, and updated later, without a lock on them (Q5).
ClaimBeginUnlocked(w, is) ==
  /\ Still(w) /\ MayClaim(w) /\ w \notin unsure
  /\ is # {} /\ Cardinality(is) <= Batch
  /\ \A i \in is : IsDue(i) /\ held[w][i] = 0
  /\ open' = [open EXCEPT ![w] = [kind |-> "claim", ids |-> is, victims |-> {}]]
  /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>
NothingLocked == {}

\* Claim: w's own row is looked at, and not locked against a sweep (Q6).
NobodyClaims == {}

\* Claim: w does not look at its own row at all, so it claims when it is taken for dead (Q6).
MayClaimAnyway(w) == TRUE

\* Claim: due by the worker's own clock.
IsDueByOwnClock(i) ==
  i \in here /\ owner[i] = Nobody /\ \E w \in up : wait[i] <= off[w]

\* Claim: no limit on claims, so a task that kills its worker goes on for ever (U7).
ClaimCommitUncounted(w, answered) ==
  LET is == open[w].ids
  IN  /\ open[w].kind = "claim" /\ Answer(answered)
      /\ owner' = [i \in Ids |-> IF i \in is THEN w ELSE owner[i]]
      /\ n' = [i \in Ids |-> IF i \in is THEN 1 ELSE n[i]]
      /\ held' = [held EXCEPT ![w] = [i \in Ids |-> IF answered /\ i \in is THEN 1 ELSE @[i]]]
      /\ want' = [want EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in is THEN "run" ELSE @[i]]]
      /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<here, wait, tries, dead, registry, up, world, history,
                     kills, drifts, jumps, changes>>

\* Claim: what was claimed too often is passed over, and nobody buries it (U7).
ClaimBeginPassesOverWorn(w, is) ==
  /\ Still(w) /\ MayClaim(w) /\ w \notin unsure
  /\ is # {} /\ Cardinality(is) <= Batch
  /\ \A i \in is : IsDue(i) /\ Free(i) /\ held[w][i] = 0 /\ n[i] < ClaimMax
  /\ open' = [open EXCEPT ![w] = [kind |-> "claim", ids |-> is, victims |-> {}]]
  /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>

\* Claim: a row that cannot be decoded is passed over, and stays where it is (Q7).
ClaimCommitPassesOver(w, answered) ==
  LET is == open[w].ids
  IN  /\ open[w].kind = "claim" /\ Answer(answered)
      /\ owner' = [i \in Ids |-> IF i \in is THEN w ELSE owner[i]]
      /\ n' = [i \in Ids |-> IF i \in is THEN 1 ELSE n[i]]
      /\ held' = [held EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in is \ Bad THEN 1 ELSE @[i]]]
      /\ want' = [want EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in is \ Bad THEN "run" ELSE @[i]]]
      /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<here, wait, tries, dead, registry, up, world, history,
                     kills, drifts, jumps, changes>>

\* Claim: a task that was claimed too often is claimed once more, to be buried in a call of its own.
ClaimCommitBuriesLater(w, answered) ==
  LET is == open[w].ids
      count(i) == IF n[i] = ClaimMax THEN n[i] ELSE n[i] + 1
  IN  /\ open[w].kind = "claim" /\ Answer(answered)
      /\ owner' = [i \in Ids |-> IF i \in is THEN w ELSE owner[i]]
      /\ n' = [i \in Ids |-> IF i \in is THEN count(i) ELSE n[i]]
      /\ held' = [held EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in is THEN count(i) ELSE @[i]]]
      /\ want' = [want EXCEPT ![w] =
           [i \in Ids |-> IF answered /\ i \in is
                          THEN IF n[i] = ClaimMax THEN "bury" ELSE "run" ELSE @[i]]]
      /\ unsure' = IF answered THEN unsure ELSE unsure \cup {w}
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<here, wait, tries, dead, registry, up, world, history,
                     kills, drifts, jumps, changes>>

-----------------------------------------------------------------------------
\* Sweep: the sweeper's own clock says whose heartbeat is stale (Q6).
SweepBeginOwnClock(w) ==
  LET victims == {v \in listed : age[v] + off[w] > Threshold /\ v \notin Claiming
                                 /\ v \notin Condemned}
  IN  /\ Still(w) /\ victims # {}
      /\ open' = [open EXCEPT ![w] = [kind |-> "sweep", ids |-> {}, victims |-> victims]]
      /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>

\* Sweep: the orphans are read first and written back as they were, whatever happened meanwhile.
SweepBeginReads(w) ==
  LET victims == {v \in listed : IsStale(v) /\ v \notin Claiming /\ v \notin Condemned}
  IN  /\ Still(w) /\ victims # {}
      /\ open' = [open EXCEPT ![w] =
           [kind |-> "sweep", ids |-> {i \in here : owner[i] \in victims}, victims |-> victims]]
      /\ UNCHANGED <<rows, registry, up, held, want, unsure, world, history, budgets>>
SweepCommitWritesBack(w) ==
  LET orphans == open[w].ids
  IN  /\ open[w].kind = "sweep"
      /\ here' = here \cup orphans
      /\ owner' = [i \in Ids |-> IF i \in orphans THEN Nobody ELSE owner[i]]
      /\ listed' = listed \ open[w].victims
      /\ open' = [open EXCEPT ![w] = NoTx]
      /\ UNCHANGED <<n, wait, tries, dead, age, up, held, want, unsure, world, history, budgets>>

\* Sweep: the workers' rows go in one transaction, their tasks are to be released in a later one.
SweepCommitForgetsTasks(w) ==
  /\ open[w].kind = "sweep"
  /\ listed' = listed \ open[w].victims
  /\ open' = [open EXCEPT ![w] = NoTx]
  /\ UNCHANGED <<rows, age, up, held, want, unsure, world, history, budgets>>

-----------------------------------------------------------------------------
\* No fence: who ran it may end it, whoever owns it by now (Q6).
NoFence(w, i) == i \in here

\* The fence is the owner alone, and a worker registers again under its old name with its tokens.
OwnerFence(w, i) == i \in here /\ owner[i] = w
RejoinKeepsTokens(w) ==
  /\ Still(w) /\ w \notin listed
  /\ listed' = listed \cup {w} /\ age' = [age EXCEPT ![w] = 0]
  /\ UNCHANGED <<rows, up, held, want, unsure, open, world, history, budgets>>

\* Give-up in two transactions: the dead task is there, the task as well (Q7) ...
BuryAddsFirst(w, i, answered) ==
  /\ Ending(w, i, "bury") /\ Fence(w, i)
  /\ dead' = dead \cup {i}
  /\ want' = [want EXCEPT ![w][i] = "finish"]
  /\ answered
  /\ UNCHANGED <<here, owner, n, wait, tries, registry, up, held, unsure, open, world, history,
                 budgets>>
\* ... or the task is gone, and the dead task not there yet.
BuryRemovesFirst(w, i, answered) ==
  /\ want[w][i] = "bury" /\ Still(w) /\ answered
  /\ IF i \in here THEN Fence(w, i) /\ Erase({i}) /\ UNCHANGED <<dead, held, want>>
     ELSE dead' = dead \cup {i} /\ Forget(w, i) /\ UNCHANGED <<here, owner, n, wait, tries>>
  /\ UNCHANGED <<registry, up, unsure, open, world, history, budgets>>

\* No table of dead tasks: a task is dead while its attempts are at the limit (Q7).
BuryLeavesRow(w, i, answered) ==
  /\ Ending(w, i, "bury") /\ Fence(w, i) /\ answered
  /\ owner' = [owner EXCEPT ![i] = Nobody]
  /\ tries' = [tries EXCEPT ![i] = limit]
  /\ dead' = dead \cup {i}
  /\ Forget(w, i)
  /\ UNCHANGED <<here, n, wait, registry, up, unsure, open, world, history, budgets>>
IsDueBelowLimit(i) ==
  i \in here /\ owner[i] = Nobody /\ wait[i] = 0 /\ tries[i] < limit

\* A retry deletes the row and inserts another, in two transactions (Q4).
RetryDeletesFirst(w, i, answered) ==
  /\ want[w][i] = "retry" /\ Still(w) /\ answered
  /\ IF i \in here
     THEN Fence(w, i) /\ Erase({i}) /\ UNCHANGED <<held, want>>
     ELSE /\ here' = here \cup {i}
          /\ tries' = [tries EXCEPT ![i] = 1]
          /\ Forget(w, i)
          /\ UNCHANGED <<owner, n, wait>>
  /\ UNCHANGED <<dead, registry, up, unsure, open, world, history, budgets>>

\* A retry without a fence puts a row back that somebody else has finished or buried.
RetryUpserts(w, i, answered) ==
  /\ Ending(w, i, "retry") /\ answered
  /\ here' = here \cup {i}
  /\ owner' = [owner EXCEPT ![i] = Nobody]
  /\ n' = [n EXCEPT ![i] = 0]
  /\ wait' = [wait EXCEPT ![i] = Delay]
  /\ Forget(w, i)
  /\ UNCHANGED <<tries, dead, registry, up, unsure, open, world, history, budgets>>

\* What a lost answer gave to a worker that lives stays with it for ever.
ReconcileNot(w) ==
  /\ Still(w) /\ w \in unsure
  /\ unsure' = unsure \ {w}
  /\ UNCHANGED <<rows, registry, up, held, want, open, world, history, budgets>>

\* Nobody sweeps.
NoSweepSpec ==
  /\ Spec
  /\ WF_vars(Advance)
  /\ \A w \in Workers :
       /\ WF_vars(Rejoin(w)) /\ SF_vars(Beat(w)) /\ SF_vars(Claim(w))
       /\ WF_vars(Commit(w)) /\ SF_vars(Step(w))
=============================================================================

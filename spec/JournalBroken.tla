---------------------------- MODULE JournalBroken ----------------------------
(***************************************************************************)
(* Constants of the models of Journal.tla, and the ways to get it wrong:   *)
(* each definition replaces one of Journal.tla (OldName <- NewName).       *)
(***************************************************************************)
EXTENDS Journal

Inodes4 == 1..4
PlanTwo == <<{<<"add", "c">>, <<"remove", "a">>},
             {<<"add", "c">>, <<"remove", "a">>, <<"list", "">>}>>
KillCrash == [kills |-> 1, crashes |-> 1]

\* D21: no recovery: a journal that is found is thrown away, complete or not, and is not read.
NoRecovery ==
  /\ pc = "idle" /\ left.calls > 0
  /\ left' = [left EXCEPT !.calls = @ - 1]
  /\ \E c \in Plan[Len(Plan) - left.calls + 1] :
       job' = [NoJob EXCEPT !.op = c[1], !.rec = c[2], !.recover = FsExists(fs, "tmp")]
  /\ fs' = LET g == FsOpen(fs, "d", "live")
           IN  IF FsExists(fs, "tmp") THEN FsOpen(g, "s", "tmp") ELSE g
  /\ Goto(IF FsExists(fs, "tmp") THEN "JVoid" ELSE "start")
  /\ UNCHANGED known
LiveSeen == SetOf(FsSeen(fs, "live"))
LiveDurable == {SetOf(c) : c \in FsDurable(fs, "live")}

\* The journal is unlinked as it is; its name, and all that it says, may come back.
NotVoided == /\ pc = "JVoid" /\ Goto("JUnlink") /\ UNCHANGED <<fs, job, left, known>>

\* Recovery cuts the live file while the journal may be in the cache only.
RecoverAtOnce == "JCut"

\* The live file is overwritten before the journal's name is durable.
JNoSyncDir == /\ pc = "JSyncDir" /\ Goto("JCut") /\ UNCHANGED <<fs, job, left, known>>

\* No trailer: any journal passes for complete.
AnyJournal(c) == c # << >>
=============================================================================

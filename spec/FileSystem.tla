----------------------------- MODULE FileSystem -----------------------------
(***************************************************************************)
(* The shared ground of all protocol modules: one directory of one local   *)
(* file system, as crash-safe code must see it.  Constants and operators   *)
(* only; a protocol keeps the whole file system in one variable `fs` and   *)
(* writes   fs' = FsAppend(fs, d, cells)   or   fs' \in FsHostCrashes(fs). *)
(*                                                                         *)
(* The one idea: beside what the running system sees, the value carries    *)
(* the SET of what a host crash may leave.  A write, truncation, creation, *)
(* unlink or rename adds outcomes, an honest fsync leaves one.  This is    *)
(* the "portable" model (any subset of the un-synced changes, applied in   *)
(* their order, with rename atomic inside the directory), because for      *)
(* each new change X:    outcomes' = outcomes \cup X(outcomes).            *)
(*                                                                         *)
(* Modelled: inodes, volatile and durable content, names lost or kept      *)
(* independently of content and of one another, open file descriptions,    *)
(* flock, torn writes, NUL tails, bytes that this inode held beyond its    *)
(* end, failed fsync in the three ways known, process and host crash.      *)
(* Left out: bytes of other files in a new length (a tier of its own, not  *)
(* part of the verdict), partial lengths of a truncation (the fragment     *)
(* that is cut here is one or two cells long, so cutting part of it is     *)
(* either of the outcomes that are there), several directories, modes,     *)
(* owners, symlinks, damaged media.                                        *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Names,          \* the names that the directory may hold (strings)
  Inodes,         \* 1..N; 0 stands for "no inode"
  Fds,            \* open file descriptions that may exist at one time
  Records,        \* record names (strings), e.g. {"a", "b"}
  \* F1, each assumption a switch:
  AtomicRename,   \* TRUE: after a crash a rename has happened wholly or not at all
  HonestFsync,    \* TRUE: an fsync that returned success has made its object durable
  \* what a crash may do to un-synced content:
  TornWrites,     \* TRUE: a part of a write may be on the disk
  NulTails,       \* TRUE: the length may be on the disk without the bytes, which read as NUL
  StaleTails,     \* TRUE: bytes beyond the end stay in the blocks and may come back (D29)
  \* what a failed fsync may do: "keep" the dirty data for the next fsync, "drop" it and leave it
  \* in the cache (ext4, xfs: the next fsync succeeds without writing), "revert" the cache (btrfs)
  FailModes

ASSUME /\ \A s \in {AtomicRename, HonestFsync, TornWrites, NulTails, StaleTails} : s \in BOOLEAN
       /\ FailModes \subseteq {"keep", "drop", "revert"}
       /\ Inodes = 1..Cardinality(Inodes)

-----------------------------------------------------------------------------
(***************************************************************************)
(* Content.  A file is a sequence of cells.  A record r is a line of two   *)
(* cells, its front "r<" and its back "r>", and the back carries the       *)
(* newline.  Two cells are enough to tell every case apart that bytes      *)
(* can: absent, torn (front alone), whole, NULs in place of either half,   *)
(* a fragment glued to the next line.  "A complete line without its        *)
(* newline" is a front alone: the engine treats it so (D16).               *)
(***************************************************************************)
Nul == "0"
Front == [r \in Records |-> r \o "<"]
Back == [r \in Records |-> r \o ">"]
Line(r) == <<Front[r], Back[r]>>
Newlines == {Back[r] : r \in Records}
RecordOf == [n \in Newlines |-> CHOOSE r \in Records : Back[r] = n]

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

\* The length of a content up to and with its last newline (D11).
Whole(c) ==
  LET ends == {j \in 1..Len(c) : c[j] \in Newlines}
  IN  IF ends = {} THEN 0 ELSE CHOOSE j \in ends : \A k \in ends : k <= j

Torn(c) == Whole(c) # Len(c)

\* Whether the line that ends at position j is a valid record: CRC right, nothing glued before it.
ValidAt(c, j) ==
  /\ j >= 2
  /\ c[j] \in Newlines
  /\ c[j - 1] = Front[RecordOf[c[j]]]
  /\ j = 2 \/ c[j - 2] \in Newlines

\* The valid records of a content, in file order (D16), and as a set.
RecordsOf(c) ==
  LET at == SelectSeq([j \in 1..Len(c) |-> j], LAMBDA j : ValidAt(c, j))
  IN  [k \in 1..Len(at) |-> RecordOf[c[at[k]]]]
SetOf(c) == {RecordOf[c[j]] : j \in {k \in 2..Len(c) : ValidAt(c, k)}}

Range(s) == {s[k] : k \in 1..Len(s)}

\* Records back to cells.
RECURSIVE LinesOf(_)
LinesOf(rs) == IF rs = << >> THEN << >> ELSE Line(Head(rs)) \o LinesOf(Tail(rs))

-----------------------------------------------------------------------------
(***************************************************************************)
(* An image <<c, b>> is what a device may hold of one inode: the content   *)
(* c up to its size, and the old cells b beyond it.  Without StaleTails b  *)
(* is always empty.  Trailing NULs of b are dropped: beyond the end,       *)
(* nothing and NUL read the same when the file grows.                      *)
(***************************************************************************)
NoImage == << << >>, << >> >>

RECURSIVE TrimNul(_)
TrimNul(b) ==
  IF b = << >> \/ b[Len(b)] # Nul THEN b ELSE TrimNul(SubSeq(b, 1, Len(b) - 1))

Pad(c, n) == [j \in 1..Max(n, Len(c)) |-> IF j <= Len(c) THEN c[j] ELSE Nul]

\* Blocks and a size make an image.
Image(blocks, n) ==
  <<SubSeq(Pad(blocks, n), 1, n),
    IF StaleTails THEN TrimNul(SubSeq(blocks, n + 1, Len(blocks))) ELSE << >> >>

\* Blocks with the cells xs[k], k \in ks, written behind the first o cells.
Overlay(blocks, o, xs, ks) ==
  LET top == IF ks = {} THEN 0 ELSE o + (CHOOSE k \in ks : \A l \in ks : l <= k)
      base == Pad(blocks, top)
  IN  [j \in 1..Len(base) |-> IF j - o \in ks THEN xs[j - o] ELSE base[j]]

(***************************************************************************)
(* What a write of xs at offset o may have made of an image m, when the    *)
(* file's size in memory was z: any of the cells may be there, and, if the *)
(* file grows, any of the new sizes.  Switches narrow this to "length      *)
(* never ahead of bytes" and "all or nothing".                             *)
(***************************************************************************)
WriteImages(m, z, o, xs) ==
  LET blocks == m[1] \o m[2]
      end == o + Len(xs)
      sizes == {Len(m[1])} \cup (IF TornWrites THEN {n \in (o + 1)..end : n > z}
                                 ELSE IF end > z THEN {end} ELSE {})
      \* the cells that a size of n shows, and those that are there if bytes precede length
      top(n) == IF StaleTails THEN Len(xs) ELSE Max(0, Min(end, n) - o)
      must(n) == IF NulTails \/ n = Len(m[1]) THEN {} ELSE 1..(n - o)
      cells(n) == {must(n) \cup ks : ks \in IF TornWrites THEN SUBSET ((1..top(n)) \ must(n))
                                            ELSE {{}, 1..top(n)}}
  IN  {m} \cup UNION {{Image(Overlay(blocks, o, xs, ks), n) : ks \in cells(n)} : n \in sizes}

\* The size change and the clearing of what lay beyond it are independent of one another.
TruncateImages(m, n) ==
  LET blocks == m[1] \o m[2]
      zeroed == [j \in 1..Len(m[1]) |-> IF j <= n THEN m[1][j] ELSE Nul]
  IN  {m, Image(blocks, n), Image(SubSeq(blocks, 1, Min(n, Len(blocks))), n)}
      \cup (IF NulTails THEN {Image(zeroed, Len(m[1]))} ELSE {})

-----------------------------------------------------------------------------
(***************************************************************************)
(* An inode: what the running system reads (mem), the images that a crash  *)
(* now may leave (disk), and the image that a successful fsync would leave *)
(* (want).  want shows mem, except where a failed fsync dropped dirty      *)
(* data: mem then shows what the device will never get.                    *)
(***************************************************************************)
EmptyInode == [mem |-> << >>, want |-> NoImage, disk |-> {NoImage}]

(***************************************************************************)
(* A file system value:                                                    *)
(*   ino    inode of each number        dir    names as now seen           *)
(*   dirs   directories that a crash may leave                             *)
(*   dwant  the directory that a successful fsync of it would leave        *)
(*   fd     inode behind each open file description, 0 when closed         *)
(*   lk     the descriptions that hold a flock                             *)
(* Paths matter only when opened: a description keeps its inode whatever   *)
(* happens to the name.                                                    *)
(***************************************************************************)
NoNames == [n \in Names |-> 0]
FsEmpty ==
  [ino |-> [i \in Inodes |-> EmptyInode], dir |-> NoNames, dirs |-> {NoNames}, dwant |-> NoNames,
   fd |-> [d \in Fds |-> 0], lk |-> {}]

Named(dir) == {dir[n] : n \in Names}

\* Inodes that a name, now or after a crash, or a description can reach.
Reached(fs) ==
  UNION {Named(d) : d \in fs.dirs \cup {fs.dir, fs.dwant}} \cup {fs.fd[d] : d \in Fds}

\* An inode that nothing reaches is freed; freed inodes are all alike, which keeps states few.
Collect(fs) ==
  LET live == Reached(fs)
  IN  [fs EXCEPT !.ino = [i \in Inodes |-> IF i \in live THEN fs.ino[i] ELSE EmptyInode]]

FreeInodes(fs) == Inodes \ Reached(fs)
FreeInode(fs) == CHOOSE i \in FreeInodes(fs) : \A j \in FreeInodes(fs) : i <= j

\* What readers see: through a description, and by name.
FsContent(fs, d) == fs.ino[fs.fd[d]].mem
FsExists(fs, n) == fs.dir[n] # 0
FsSeen(fs, n) == IF fs.dir[n] = 0 THEN << >> ELSE fs.ino[fs.dir[n]].mem

\* Every content that may stand under a name after a host crash now; a lost name reads as empty.
FsDurable(fs, n) ==
  UNION {IF d[n] = 0 THEN {<< >>} ELSE {m[1] : m \in fs.ino[d[n]].disk} : d \in fs.dirs}

-----------------------------------------------------------------------------
\* Directory changes: each adds outcomes, none is durable before FsSyncDir.
Relink(fs, f(_)) ==
  [fs EXCEPT !.dir = f(fs.dir), !.dirs = @ \cup {f(d) : d \in @}, !.dwant = f(@)]

FsOpen(fs, d, n) == [fs EXCEPT !.fd[d] = fs.dir[n]]

FsCreate(fs, d, n) ==
  LET i == FreeInode(fs)
  IN  [Relink(fs, LAMBDA dir : [dir EXCEPT ![n] = i]) EXCEPT !.fd[d] = i, !.ino[i] = EmptyInode]

FsUnlink(fs, n) == Collect(Relink(fs, LAMBDA dir : [dir EXCEPT ![n] = 0]))

\* Without AtomicRename the removal of the target, the new entry and the removal of the source
\* reach the disk independently.
FsRename(fs, old, new) ==
  LET i == fs.dir[old]
      moved == Relink(fs, LAMBDA dir : [dir EXCEPT ![old] = 0, ![new] = i])
      parts == UNION {{[d EXCEPT ![new] = 0], [d EXCEPT ![new] = i], [d EXCEPT ![old] = 0],
                       [d EXCEPT ![old] = 0, ![new] = 0]} : d \in fs.dirs}
  IN  Collect(IF AtomicRename THEN moved ELSE [moved EXCEPT !.dirs = @ \cup parts])

FsSyncDir(fs) == IF HonestFsync THEN Collect([fs EXCEPT !.dirs = {fs.dwant}]) ELSE fs

\* A directory fsync that fails may also drop what it should have written.
FsSyncDirFails(fs) ==
  (IF FailModes \subseteq {"keep"} THEN {} ELSE
     {Collect([fs EXCEPT !.dirs = {d}, !.dwant = d]) : d \in fs.dirs})
  \cup {fs}

-----------------------------------------------------------------------------
\* Content changes, through a description, hence on an inode and never on a path.
FsWrite(fs, d, o, xs) ==
  LET i == fs.fd[d]
      x == fs.ino[i]
      z == Len(x.mem)
      end == o + Len(xs)
      grown == Overlay(x.want[1] \o x.want[2], o, xs, 1..Len(xs))
  IN  [fs EXCEPT !.ino[i] =
        [mem |-> Overlay(x.mem, o, xs, 1..Len(xs)),
         want |-> Image(grown, IF end > z THEN end ELSE Len(x.want[1])),
         disk |-> UNION {WriteImages(m, z, o, xs) : m \in x.disk}]]

FsAppend(fs, d, xs) == FsWrite(fs, d, Len(FsContent(fs, d)), xs)

FsTruncate(fs, d, n) ==
  LET i == fs.fd[d]
      x == fs.ino[i]
      blocks == x.want[1] \o x.want[2]
  IN  [fs EXCEPT !.ino[i] =
        [mem |-> SubSeq(x.mem, 1, n),
         want |-> Image(SubSeq(blocks, 1, Min(n, Len(blocks))), n),
         disk |-> UNION {TruncateImages(m, n) : m \in x.disk}]]

FsSync(fs, d) ==
  LET i == fs.fd[d]
  IN  IF HonestFsync THEN [fs EXCEPT !.ino[i].disk = {fs.ino[i].want}] ELSE fs

(***************************************************************************)
(* A failed fsync, by mode.  Dropping picks what the device holds at that  *)
(* time: from then on it is that, and the next fsync adds nothing to it.   *)
(* That some dirty units may stay dirty is covered, since every subset of  *)
(* them is among the images to pick from.  Left out: a page that was       *)
(* dropped and is evicted later, so that reads change; "revert" is that    *)
(* eviction at once.                                                       *)
(***************************************************************************)
FsSyncFails(fs, d) ==
  LET i == fs.fd[d]
      x == fs.ino[i]
      dropped(m, mem) == [fs EXCEPT !.ino[i] = [mem |-> mem, want |-> m, disk |-> {m}]]
  IN  (IF "keep" \in FailModes THEN {fs} ELSE {})
      \cup (IF "drop" \in FailModes THEN {dropped(m, x.mem) : m \in x.disk} ELSE {})
      \cup (IF "revert" \in FailModes THEN {dropped(m, m[1]) : m \in x.disk} ELSE {})

-----------------------------------------------------------------------------
(***************************************************************************)
(* flock: a lock belongs to an open file description, not to a process; a  *)
(* forked child shares its parent's descriptions.  Attempts never wait.    *)
(***************************************************************************)
FsLockFree(fs, d) == \A e \in fs.lk : e = d \/ fs.fd[e] # fs.fd[d]
FsLock(fs, d) == [fs EXCEPT !.lk = @ \cup {d}]
FsUnlock(fs, d) == [fs EXCEPT !.lk = @ \ {d}]

\* Whether the path still names the inode behind the description (D24, W11).
FsIsNamed(fs, d, n) == fs.dir[n] = fs.fd[d]

\* The last close of descriptions ds: their locks go with them.
FsCloseAll(fs, ds) ==
  Collect([fs EXCEPT !.fd = [d \in Fds |-> IF d \in ds THEN 0 ELSE @[d]], !.lk = @ \ ds])
FsClose(fs, d) == FsCloseAll(fs, {d})

-----------------------------------------------------------------------------
(***************************************************************************)
(* Crashes.  A process crash keeps all that the kernel has: FsCloseAll of  *)
(* the descriptions that no living process holds any more; a write in      *)
(* flight may have happened in part (FsAppend of a prefix).                *)
(*                                                                         *)
(* A host crash leaves one directory and for each inode that it names one  *)
(* image; everything else is gone.                                         *)
(***************************************************************************)
RECURSIVE Picks(_, _, _)
Picks(fs, dir, k) ==
  IF k = 0 THEN {<< >>}
  ELSE LET here == IF k \in Named(dir) THEN fs.ino[k].disk ELSE {NoImage}
       IN  {Append(p, m) : p \in Picks(fs, dir, k - 1), m \in here}

FsHostCrashes(fs) ==
  UNION {{[ino |-> [i \in Inodes |-> [mem |-> p[i][1], want |-> p[i], disk |-> {p[i]}]],
           dir |-> dir, dirs |-> {dir}, dwant |-> dir,
           fd |-> [d \in Fds |-> 0], lk |-> {}] : p \in Picks(fs, dir, Cardinality(Inodes))}
         : dir \in fs.dirs}

\* Shape of a file system value; kept as an invariant in every model.
FsTypeOK(fs) ==
  /\ DOMAIN fs.ino = Inodes
  /\ fs.dir \in [Names -> Inodes \cup {0}]
  /\ fs.dirs # {} /\ \A d \in fs.dirs : d \in [Names -> Inodes \cup {0}]
  /\ fs.fd \in [Fds -> Inodes \cup {0}]
  /\ fs.lk \subseteq {d \in Fds : fs.fd[d] # 0}
  /\ \A i \in Inodes : fs.ino[i].disk # {}
=============================================================================

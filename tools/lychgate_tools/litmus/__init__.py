"""`lychgate litmus`: what real file systems leave after a crash, held against the lab's models.

    kernel        the system calls that Python has no name for: mount, unshare, loop devices
    fuse          one block file, served from memory over /dev/fuse, every write and flush logged
    blocklog      from the log to crash images: windows between flushes, selections of writes
    filesystems   ext4, ext4-writeback, xfs, btrfs: how each is made and mounted, its model
    real          a litmus program on a mounted directory; what is done between its steps
    machine       a block file, a loop device and a file system on it
    explore       the images of one log, tried until there are no more or time is up
    driver        one file system, in a process and a mount namespace of its own
    jobs          the driver from outside: job in, results out, end of it in any case
    judge         real states against the models' states
    report, page  what is printed, and docs/litmus.md
    command       the command line

Nothing outlives the driver: mounts are in its namespace, loop devices detach at their last close,
the block file is in the memory of its child. So even SIGKILL leaves at most an empty directory.
"""

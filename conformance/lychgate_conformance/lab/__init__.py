"""The crash lab: a simulated file system, every image that a crash may leave, and an explorer.

    _micro       micro-ops and the recorder: what a run did to a disk, call by call
    _image       what is on a disk after a crash: names, types, bytes; mounting, writing out
    _contents    per file: the states in which a crash may leave its bytes
    _models      persistence models by name, and what each of them orders and forces
    _enumerate   every image of a recorded run under a model, deduplicated, with counts
    _disk        one simulated disk: paths, descriptions, locks, boot id, clock
    _simfs       the engine's `Fs` port on that disk, one object per process; faults
    _run         one run: workers, fibers, a schedule, a crash; replayable from a list of choices
    _workload    what the fibers do, generated systematically
    _target      the engine (or a deliberately broken one) as something that a run can drive
    _oracle      what may be seen after a run: the meaning of the abstract spec
    _explore     all schedules, crash points, images and faults up to stated bounds
    _shrink      the smallest run that still fails, and the command that replays it

The micro-ops and their rules are those of the crash-semantics page (docs): the recorder knows
nothing of the `Fs` port, so that recordings of foreign programs feed the same enumeration.
"""

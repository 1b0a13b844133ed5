"""The crash lab: a simulated file system, every image that a crash may leave, and an explorer.

    _micro               micro-ops and the recorder: what a run did to a disk, call by call
    _image               what is on a disk after a crash; mounting it, writing it out
    _models              persistence models by name: what each orders, and what a sync forces
    _contents            the free models: every state of one file, every binding of its names
    _ordered, _ordered_sets   the models that order things
    _family, _enumerate, _bounded   image sets: products, counts, bounds
    _faults              what can be made to go wrong in a call
    _disk, _simfs        the engine's `Fs` port on a simulated disk, one object per process
    _workload, _starts   what the fibers do, and what stands on the disk at first
    _calls, _queue_steps   the facade calls that a step is made of; the queue's own programs
    _target, _fiber, _run   one run: workers, fibers, choices; replayable from a list of integers
    _oracle, _judge      what was done and is known of it; what may be seen of the WAL
    _dead_history        what may be seen of the dead tasks: the suite's oracle is asked
    _recover             what a new process sees on an image, remembered by content
    _explore, _sweep, _campaign   all schedules, crash points, images and faults, up to bounds
    _rate                how many images a second are judged
    _plan, _shrink, _replay   the smallest run that still fails, and the command that replays it
    _mutant, _mutants_*, _hunt   faults planted in the engine, and what kills them
    _litmus, _litmus_programs   programs whose outcomes are compared with real file systems
    _summary             results as words and as JSON

The micro-ops and their rules are those of the crash-semantics page (docs): the recorder knows
nothing of the `Fs` port, so that recordings of foreign programs feed the same enumeration.
"""

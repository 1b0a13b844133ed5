"""Black-box crash exploration: any adapter, any language, unchanged, through strace.

    _strace      start a command under strace; parse what it says, call by call
    _processes   who has which descriptor and which directory: fork, exec, dup, close
    _effects, _bytes, _calls   what each call does to the store's files, in micro-ops of the lab
    _record      a whole recording, with acknowledgements in place, checked against the files
    _traced      adapters under strace
    _script      what adapters are asked to do, and what that obliges them to
    _images      the images of every crash point
    _checker     a long-lived adapter that looks at images
    _explore     one script, recorded and judged; crashes within recovery
    _succession  a worker killed, another goes on, the host crashes
    _places, _kill   really killed, at every call
    _syscalls, _tracer, _pause   a worker stopped before any of its calls on the store
    _schedule    one worker stands, others go on: what comes of it
    _errnos, _faults   which errors a call can have, and which are tried where
    _attached, _faulted, _fault_verdict   an adapter whose calls fail: run, and judged
    _explain     a failure, in words

The enumeration of images is the crash lab's, the oracle is the suite's. What a recording cannot
explain (a call that is not understood, a writable shared mapping) is NOT MEASURED, never a pass:
at the end of a recording the files that it predicts are compared with those that there are.
"""

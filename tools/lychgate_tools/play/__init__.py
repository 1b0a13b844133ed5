"""A person drives a small store on the simulated disk, and the oracle says what broke.

    game      the moves: a worker's next step, a kill, a crash and what it leaves; taking them back
    screen    a game as lines of text
    command   `lychgate play`: reads moves from a person or a pipe
"""

"""Traces for people: one document for every source, as a page and as text.

    document    the format (`steps-1.json` is its schema): builder, reader, state at a step
    pieces      what is in a file, as pieces that can be drawn: records, torn lines, NULs
    disk        the three lanes of a file on a simulated disk, and what a crash may leave of it
    from_tlc, from_lab, from_litmus, from_failure, from_engine   the sources
    sources     excerpts of spec and engine that a step links to
    text, html  the two forms; page.html, page.css and page.js are what `html` puts into one file
    lessons, explain   the scenarios of `lychgate explain`
    real_files  the same scenarios on real files
"""

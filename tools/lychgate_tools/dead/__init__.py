"""`lychgate dead`: what an operator does with the dead tasks of a store, beside running workers."""

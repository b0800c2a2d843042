"""Attacks on files and processes, counted. `make faults` runs them all and prints a table.

Each module has a line `FAULT` and a function `attacks(folder, share)`, which yields (description, outcome) for every
attack. The outcome is SURVIVED, or what was lost or wrong, in words. `share` below 1 asks for fewer attacks.
"""

SURVIVED = "survived"

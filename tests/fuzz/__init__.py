"""Mutated films against the real door, child and supervisor: ``make fuzz MINUTES=…`` or ``python -m tests.fuzz``."""

"""Diagnoses: why the destination of dead letters refuses them, and the command that ends it.

A diagnosis asks the queue manager, and changes nothing there. It says what a put would meet now, so
that a cause that is fixed is seen to be fixed. What cannot be asked is not guessed.
"""

"""Controls of a run: they hold due messages on the queue, for a time or for the rest of the run.

The rules say what is done with a message; a control only says not now. A message that is held at
the end of its run is `not_attempted`, or has the outcome that the control names, with the reason.
"""

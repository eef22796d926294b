"""The first stage: inquire whether a queue has work, then begin the run or wait."""

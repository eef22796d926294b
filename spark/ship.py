"""`python spark/ship.py mqdlq.zip`: see `mqdlq.evaluation.workers`."""

from mqdlq.evaluation.workers import main

if __name__ == "__main__":
    main()

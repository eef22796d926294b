"""`python spark/ship.py mqdlq.zip`: see `mqdlq.evaluation.ship`."""

from __future__ import annotations

from mqdlq.evaluation.ship import main

if __name__ == "__main__":
    main()

"""`spark-submit compare_rules.py`: see `mqdlq.evaluation.applications.compare_rules`."""

import sys

from mqdlq.evaluation.applications.compare_rules import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`spark-submit dlq_history.py`: see `mqdlq.evaluation.applications.dlq_history`."""

import sys

from mqdlq.evaluation.applications.dlq_history import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`spark-submit jobs/compact/main.py` in a checkout: the job of `strata.jobs.compact`."""

import sys

from strata.jobs.compact.main import main

if __name__ == "__main__":
    sys.exit(main())

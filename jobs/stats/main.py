"""`spark-submit jobs/stats/main.py` in a checkout: the job of `strata.jobs.stats`."""

import sys

from strata.jobs.stats.main import main

if __name__ == "__main__":
    sys.exit(main())

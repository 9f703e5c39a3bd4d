"""`spark-submit jobs/ingest/main.py` in a checkout: the job of `strata.jobs.ingest`."""

import sys

from strata.jobs.ingest.main import main

if __name__ == "__main__":
    sys.exit(main())

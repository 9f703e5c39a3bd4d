"""`spark-submit jobs/validate/main.py` in a checkout: the job of `strata.jobs.validate`."""

import sys

from strata.jobs.validate.main import main

if __name__ == "__main__":
    sys.exit(main())

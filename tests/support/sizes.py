"""How much a test tries: a little in `make test`, a lot in `make test-long`."""

import os
from typing import Final

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or "ci"
EXAMPLES: Final = {"ci": 15, "explore": 200, "long": 2000}  # of Hypothesis, by profile


def tries(few: int, many: int) -> int:
    """Return `few` for a person and for CI, `many` where there is time."""
    return few if PROFILE == "ci" else many

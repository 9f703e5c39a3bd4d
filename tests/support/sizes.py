"""How much a test tries: least in `make test-unit`, little in `make test`, else a lot."""

import os
from typing import Final

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or "ci"
EXAMPLES: Final = {"loop": 4, "ci": 15, "explore": 200, "long": 2000}  # of Hypothesis, by profile


def tries(few: int, many: int) -> int:
    """Return `few` for a person and for CI, `many` where there is time."""
    return few if PROFILE in ("loop", "ci") else many

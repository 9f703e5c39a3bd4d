"""`python -m strata.kernels` compiles every kernel, so that no job waits for it later."""

import importlib
import time

from strata.kernels import WARM


def main() -> None:
    """Run what uses each kernel once; say how long it took."""
    for name in WARM:
        start = time.perf_counter()
        module, function = name.split(":")
        getattr(importlib.import_module(module), function)()
        print(f"{name}: {time.perf_counter() - start:.1f} s")  # noqa: T201 -- for a person


if __name__ == "__main__":
    main()

"""`python -m strata.kernels` compiles every kernel, so that no job waits for it later."""

import importlib
import subprocess
import sys
import time

from strata.kernels import WARM


def main(names: list[str]) -> int:
    """Run the named functions, which use the kernels once; several run in separate processes."""
    if len(names) == 1:
        start = time.perf_counter()
        module, function = names[0].split(":")
        getattr(importlib.import_module(module), function)()
        print(f"{names[0]}: {time.perf_counter() - start:.1f} s")  # noqa: T201 -- for a person
        return 0
    command = (sys.executable, "-m", "strata.kernels")
    running = [subprocess.Popen([*command, name]) for name in names or WARM]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

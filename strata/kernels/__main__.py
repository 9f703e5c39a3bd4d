"""`python -m strata.kernels` compiles every kernel, so that no job waits for it later.

`--ready` compiles them for any machine of this kind, into the folder that a wheel takes along, and
that the processes of a checkout use as well.
"""

import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numba

from strata.kernels import WARM, ready


def main(words: list[str]) -> int:
    """Run the named functions, which use the kernels once; several run in separate processes."""
    names = [word for word in words if word != "--ready"]
    if len(names) == 1:
        ready.compile_again()
        start = time.perf_counter()
        module, function = names[0].split(":")
        getattr(importlib.import_module(module), function)()
        print(f"{names[0]}: {time.perf_counter() - start:.1f} s")  # noqa: T201 -- for a person
        return 0
    return _prepare() if "--ready" in words else _run(names or list(WARM), {})


def _run(names: list[str], environment: dict[str, str]) -> int:
    """Run each function in a process of its own, as many at a time as there are processors."""

    def run(name: str) -> int:
        command = (sys.executable, "-m", "strata.kernels", name)
        return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return max(pool.map(run, names))


def _prepare() -> int:
    """Fill the folder of ready kernels; it is replaced only when all of them are compiled."""
    if not ready.runs_here():  # another kind of processor: only its own kernels serve
        return _run(list(WARM), {})
    made_of = _made_of()
    record = ready.FOLDER / "made-of.txt"
    if record.exists() and record.read_text("utf-8") == made_of:
        return 0
    with tempfile.TemporaryDirectory(prefix="strata-kernels-") as folder:
        target = {"NUMBA_CPU_NAME": ready.BASELINE, "NUMBA_CPU_FEATURES": ""}
        if code := _run(list(WARM), {**target, "NUMBA_CACHE_DIR": folder}):
            return code
        shutil.rmtree(ready.FOLDER, ignore_errors=True)
        ready.FOLDER.mkdir()
        for file in Path(folder).rglob("*.nb[ic]"):
            shutil.move(file, ready.FOLDER / file.name)
        record.write_text(made_of, "utf-8")
    return 0


def _made_of() -> str:
    """Return what the ready kernels depend on, in words: compilers, and a digest of the sources."""
    rooms = Path(__file__).parents[1]
    warm = [rooms.parent / f"{one.partition(':')[0].replace('.', '/')}.py" for one in WARM]
    own = {Path(__file__), Path(ready.__file__)}  # they compile nothing into a kernel
    sources = sorted([*{*Path(__file__).parent.glob("*.py")} - own, *warm])
    digest = sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    system = f"{platform.system()} {ready.BASELINE}"
    return f"{system} Python {platform.python_version()} numba {numba.__version__} {digest}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

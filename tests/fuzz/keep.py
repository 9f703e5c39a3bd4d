"""`python -m tests.fuzz.keep FOLDER`: put what fuzzing kept into the archives that CI replays.

Seeds are left out, as they are made anew each time; equal archives are made of equal inputs.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
LONG: Final = 1024  # bytes of an input; longer ones are of no use to people
EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def keep(folder: Path, archive: Path) -> int:
    """Add the inputs in a folder, and the failures beside it, to an archive; return how many."""
    inputs: dict[str, bytes] = {}
    if archive.exists():
        with zipfile.ZipFile(archive) as old:
            inputs = {name: old.read(name) for name in old.namelist()}
    files = [f for f in folder.iterdir() if not f.name.startswith("seed-")]
    files += folder.parent.glob(f"{folder.name}-crash-*")
    inputs |= {f.name: f.read_bytes() for f in files if f.stat().st_size <= LONG}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(inputs):
            new.writestr(zipfile.ZipInfo(name, EPOCH), inputs[name])
    return len(inputs)


if __name__ == "__main__":
    for found in sorted(Path(sys.argv[1]).iterdir()):
        if found.is_dir():
            CORPUS.mkdir(exist_ok=True)
            print(found.name, keep(found, CORPUS / f"{found.name}.zip"))  # noqa: T201

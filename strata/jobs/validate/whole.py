"""Files of the report are written as a whole: a build that is killed leaves half of none."""

import os
from pathlib import Path


def write_whole(file: Path, data: bytes) -> None:
    """Write a file, all or nothing, and never through a link. Raises: OSError."""
    part = file.with_name(f".{file.name}.part"[-255:])
    part.unlink(missing_ok=True)
    with part.open("xb") as opened:
        opened.write(data)
    os.replace(part, file)

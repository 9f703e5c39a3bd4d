"""Files of the report are written as a whole: a build that is killed leaves half of none."""

from pathlib import Path

from strata.store.whole_file import replacing


def write_whole(file: Path, data: bytes) -> None:
    """Write a file, all or nothing, and never through a link. Raises: OSError."""
    with replacing(file) as opened:
        opened.write(data)

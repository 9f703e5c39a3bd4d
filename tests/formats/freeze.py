"""Write the frozen files of the current format version. Run once for each new version.

    .venv/bin/python -m tests.formats.freeze

Files that exist are left alone: what was once written must be read for ever.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from strata.format.digest import content_digest
from strata.format.manifest import PartRef, Split, encode_manifest, manifest_table
from strata.format.part import Description, encode_part
from strata.model.spec import LAYOUTS
from tests.formats.contents import OLD, VERSION, updates

HERE = Path(__file__).parent


def freeze() -> list[Path]:
    """Write the files that are missing and return them."""
    files = {f"part-{layout}.parquet": _part(layout) for layout in LAYOUTS}
    files["manifest.arrow"] = encode_manifest(_manifest())
    folder = HERE / f"v{VERSION}"
    folder.mkdir(exist_ok=True)
    written = []
    for name, data in files.items():
        path = folder / name
        if not path.exists():
            path.write_bytes(data)
            written.append(path)
    return written


def _part(layout: str) -> bytes:
    return encode_part(
        updates(), OLD, layout, description=Description(-5, 1000, 7), row_group_bytes=600
    ).data


def _manifest() -> pa.Table:
    first = PartRef(
        key="frozen/parts/1", size_bytes=100, rows=6, run=0, layout="both", relation_version=4,
        order=(1, 2), t_low=-5, t_high=999, diffs_sum=2, digest=content_digest(updates(), OLD),
        retractions=True, key_low=b"\x01", key_high=None,
        splits=(Split(0, b"\x01"), Split(3, b"\x02")), stats_version=1, stats_bytes=77,
    )  # fmt: skip
    second = replace(first, key="frozen/parts/2", key_high=b"\x09", splits=(), layout="row",
                     stats_version=None, stats_bytes=0)  # fmt: skip
    low = {"nulls": 1, "low": -7, "high": 2**40, "low_exact": True, "high_exact": False}
    stats = pa.RecordBatch.from_pylist([{"rows": 6, "s.4": low, "s.13$.a": {"present": 2}}])
    return manifest_table([first, second], [stats, None])


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in freeze())

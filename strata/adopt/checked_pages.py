"""PyIceberg 0.12 with the checksums of Parquet's pages verified, for which it has no option."""

from typing import Any

from pyiceberg.io import pyarrow as library
from pyiceberg.manifest import FileFormat


def check_pages() -> None:
    """Have PyIceberg refuse damaged pages, in this process and from now on."""
    made = library._get_file_format
    if hasattr(made, "checks_pages"):
        return

    def checked(kind: FileFormat, **options: Any) -> Any:
        more = {"page_checksum_verification": True} if kind is FileFormat.PARQUET else {}
        return made(kind, **options, **more)

    checked.checks_pages = True  # type: ignore[attr-defined]
    library._get_file_format = checked

"""PyIceberg 0.12 with the checksums of Parquet's pages verified, for which it has no option."""

from typing import Any, Final

from pyiceberg.io import pyarrow as library
from pyiceberg.manifest import FileFormat

MADE_BY: Final = "_get_file_format"


def check_pages() -> None:
    """Have PyIceberg refuse damaged pages, in this process and from now on."""
    made = getattr(library, MADE_BY)
    if hasattr(made, "checks_pages"):
        return

    def checked(kind: FileFormat, **options: Any) -> Any:
        more = {"page_checksum_verification": True} if kind is FileFormat.PARQUET else {}
        return made(kind, **options, **more)

    checked.checks_pages = True  # type: ignore[attr-defined]
    setattr(library, MADE_BY, checked)

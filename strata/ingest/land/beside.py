"""Files beside the ones that were delivered: their names say that they are no delivery.

Programs that copy write under another name and rename what is whole. Editors keep what was there
before. Checksums lie beside the files that they are of. Who wants such a file nevertheless names
it, or declares a path that ends so (`landing/%Y-%m-%d.csv.part`).
"""

from typing import Final

UNFINISHED: Final = (
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".filepart",  # WinSCP
    ".crdownload",  # Chrome
    ".inprogress",
    ".incomplete",
    "._copying_",  # hdfs dfs -put
    "_.gstmp",  # gsutil
)
KEPT: Final = ("~", ".bak", ".swp", ".swo", ".swx")  # by editors
SUMS: Final = (".crc", ".md5", ".sha1", ".sha256", ".sha512")
ENDS: Final = (*UNFINISHED, *KEPT, *SUMS)
BEGINS: Final = ("~$", "#")  # a lock of Office; what Emacs has saved, in a pair of these


def is_beside(path: str) -> bool:
    """Return whether the name of a file says that it is not whole, a former one, or a checksum.

    >>> is_beside("in/2024-01-01.csv.TMP"), is_beside("in/#2024-01-01.csv#")
    (True, True)
    >>> is_beside("in/a.tmp/2024-01-01.csv"), is_beside("in/part-00000.csv")
    (False, False)
    """
    name = path.rpartition("/")[2].lower()
    if name.startswith(BEGINS):
        return not name.startswith("#") or name.endswith("#")
    return name.endswith(ENDS)


def is_named(path: str, declared: str, *, pattern: bool) -> bool:
    """Return whether a declared path asks for a file beside others: the file itself, or a pattern.

    The name of a folder says nothing of the files in it.

    >>> is_named("2024-01-01.csv.part", "in/%Y-%m-%d.csv.part", pattern=True)
    True
    >>> is_named("2024-01-01.csv.part", "in.part", pattern=False)
    False
    """
    return is_beside(declared) and (pattern or path == declared.rpartition("/")[2])

"""What people can do about errors of a file system."""

import errno
from typing import Final

CURES: Final = {  # by the number of the operating system's error
    errno.ENOSPC: "make room on this disk",
    errno.EDQUOT: "raise the quota or make room",
    errno.EACCES: "give this user the right to read and write the folder",
    errno.EPERM: "give this user the right to write; the file system must support hard links",
    errno.EROFS: "mount the file system for writing",
    errno.EMFILE: "raise the limit of open files",
}

"""An archive of Spark's classes, which halves the start of each job's Java machine.

Java reads and checks some 15,000 classes of Spark's jars at each start. Java 13 and later can write
those that a run has loaded into one file when it ends, and map that file in later runs. The first
job of a demo writes it, all others use it, and so do later demos. Java itself refuses an archive of
other jars or another Java, and works as without one.
"""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from demo.places import HIDDEN

FOLDER: Final = HIDDEN / "classes"
# Only errors: an archive that is written names each class that it leaves out.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive lies, and the file of flags that says what a Java machine does with it.

    The flags are a file because Airflow's processes get their variables once, at their start.
    """

    folder: Path = FOLDER

    @property
    def options(self) -> str:
        """Return the options of a Java machine; empty where Spark would cut the path in pieces."""
        if len(str(self.folder).split()) != 1:
            return ""
        return f"{_QUIET} -XX:Flags={self._flags}"

    def make_ready(self, *, write: bool) -> None:
        """Let the next Java machines use the archive; `write`: or write it if there is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file()
        flag = ""
        if file.exists():
            flag = f"SharedArchiveFile={file}\n"
        elif write:
            flag = f"ArchiveClassesAtExit={self._unfinished(file)}\n"
        self._flags.write_text(flag, encoding="utf-8")

    def take(self) -> None:
        """Let the next Java machines use what one has written that has ended by now."""
        file = self._file()
        if self._unfinished(file).exists():
            self._unfinished(file).replace(file)
        self.make_ready(write=False)

    @property
    def _flags(self) -> Path:
        return self.folder / "java.flags"

    def _file(self) -> Path:
        java = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
        name = hashlib.sha256(java + pyspark.__version__.encode()).hexdigest()[:16]
        return self.folder / f"{name}.jsa"

    @staticmethod
    def _unfinished(file: Path) -> Path:
        return file.with_suffix(".unfinished")

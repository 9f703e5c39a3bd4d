"""An archive of Spark's classes, which halves the start of each job's Java machine.

Java reads some 15,000 classes of Spark's jars at each start. Java 13 and later can write those that
a run has loaded into one file when it ends, and map that file in later runs. That takes half a
minute of a processor, as much as it saves in five jobs: so not the demo writes it, but the Airflow
that stays (`make up`), beside what people do. Later jobs and demos use it. Java itself refuses an
archive of other jars or another Java, and works as without one.

    python -m demo.classes FILE        load what jobs load, and write the archive
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from demo.places import HIDDEN

FOLDER: Final = HIDDEN / "classes"
# Half of a short job is the start of its Java machine; a long one would lose by the first two. The
# others leave out proofs about classes that the installation has compared with their hashes.
QUICK_START: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
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
        """Return the options of a driver's Java machine, those of a quick start included."""
        return f"{QUICK_START} {_QUIET} -XX:Flags={self._flags}" if self._usable else QUICK_START

    def make_ready(self) -> None:
        """Let the next Java machines use the archive, if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file()
        flag = f"SharedArchiveFile={file}\n" if file.exists() else ""
        self._flags.write_text(flag, encoding="utf-8")

    def writing(self) -> list[str]:
        """Return the command that writes the archive and lets jobs use it; empty: nothing to do."""
        file = self._file()
        if file.exists() or not self._usable:
            return []
        return [sys.executable, "-m", "demo.classes", str(file)]

    @property
    def _usable(self) -> bool:
        """Return whether Spark leaves the path in one piece."""
        return len(str(self.folder).split()) == 1

    @property
    def _flags(self) -> Path:
        return self.folder / "java.flags"

    def _file(self) -> Path:
        java = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
        name = hashlib.sha256(java + pyspark.__version__.encode()).hexdigest()[:16]
        return self.folder / f"{name}.jsa"


def write(file: Path) -> None:
    """Load the classes that jobs of Spark load, and let Java write them to a file as it ends."""
    from pyspark.sql import SparkSession

    unfinished = file.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    options = f"{QUICK_START} {_QUIET} -XX:ArchiveClassesAtExit={unfinished}"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", options).getOrCreate()
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.sparkContext.parallelize(range(2), 2).map(str).collect()
    spark.range(9).where("date_add(current_date(), int(id)) > '2013-01-01'").collect()
    spark.stop()
    java.stdin.close()  # Java ends with its parent's end of the pipe, and writes the archive
    java.wait()
    if unfinished.exists():
        unfinished.replace(file)
    ClassArchive(file.parent).make_ready()


if __name__ == "__main__":
    os.nice(19)  # people work with Airflow meanwhile
    write(Path(sys.argv[1]))

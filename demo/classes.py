"""An archive of Spark's classes, which halves the start of each job's Java machine.

Java reads and checks some 15,000 classes of Spark's jars at each start. Java 13 and later can write
those that a run has loaded into one file when it ends, and map that file in later runs. The first
demo lets a small run of its own write it while files are laid out and Airflow starts; jobs use it
as soon as it is there, and so do later demos. Java itself refuses an archive of other jars or
another Java, and works as without one.

    python -m demo.classes FILE        load what jobs load, and write the archive
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from demo.places import HIDDEN, PROJECT

FOLDER: Final = HIDDEN / "classes"
# Half of a short job is the start of its Java machine; a long one would lose by these.
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
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

    @contextmanager
    def being_written(self) -> Iterator[Callable[[], None]]:
        """Write the archive beside the block, if there is none; yield what takes it then.

        Nobody waits for it: jobs run without it, too, and it takes only time that they leave. No
        process stays behind in any case.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file()
        if file.exists() or not self._usable:
            yield self.make_ready
            return
        unfinished = file.with_suffix(".unfinished")
        process = subprocess.Popen(
            [sys.executable, "-m", "demo.classes", str(unfinished)],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def take() -> None:
            if process.poll() == 0 and unfinished.exists():
                unfinished.replace(file)
            self.make_ready()

        try:
            yield take
        finally:
            process.terminate()
            process.wait()

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

    file.unlink(missing_ok=True)
    options = f"{QUICK_START} {_QUIET} -XX:ArchiveClassesAtExit={file}"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", options).getOrCreate()
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.sparkContext.parallelize(range(2), 2).map(str).collect()
    spark.range(9).where("date_add(current_date(), int(id)) > '2013-01-01'").collect()
    spark.stop()
    java.stdin.close()  # Java ends with its parent's end of the pipe, and writes the archive
    java.wait()


if __name__ == "__main__":
    os.nice(19)
    write(Path(sys.argv[1]))

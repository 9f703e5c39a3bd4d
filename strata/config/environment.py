"""What must be true of the machine before anything runs, checked without starting anything.

`strata doctor` prints these checks; the first line of every job is `require_matching_pyspark`.
The trap that it guards against: the distribution `pyspark-client` unpacks over the folder of
`pyspark`, without a word from pip, and the mixture fails later and elsewhere. Nothing heavy is
imported: versions are read from metadata, file names and one line of text.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from strata.errors import InvalidRequest, StrataError
from strata.model.extras import cure as cure_of
from strata.model.settings import StoreSettings, without_password
from strata.store.interface import Blob

PYTHON_FLOOR: Final = (3, 11)
JAVA_FLOOR: Final = 17
JAVA_CURE: Final = "install Java 17, on Debian: apt-get install openjdk-17-jre-headless"
PROBE_KEY: Final = "doctor/probe"  # written, read back and deleted by the store check

UNSEEN: Final = "; this user only reads: whether blobs are written once is not seen"

_SPARK_JAR: Final = re.compile(r"spark-core_[\d.]+-(?P<version>.+)\.jar")
_VERSION_LINE: Final = re.compile(r"""__version__[^=\n]*=\s*["'](?P<version>[^"']+)""")
_JAVA_VERSION: Final = re.compile(r'version "(?P<version>\d+(\.\d+)?)')


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of `strata doctor`."""

    name: str
    ok: bool
    found: str
    cure: str = ""  # what to do; empty exactly when ok


@dataclass(frozen=True, slots=True)
class PysparkFacts:
    """The versions that the parts of a PySpark installation claim; None: that part is missing."""

    module: str | None  # pyspark/version.py
    distribution: str | None  # the installer's record of pyspark
    jar: str | None  # pyspark/jars/spark-core_*.jar
    client: str | None  # the installer's record of pyspark-client


def check_all(stores: StoreSettings, environ: Mapping[str, str] = os.environ) -> list[DoctorLine]:
    """Return every check, in the order in which a newcomer would cure them.

    Cost: starts `java -version` and opens the stores, well under two seconds.
    """
    return [
        check_python(),
        check_java(environ),
        check_pyspark(pyspark_facts()),
        check_distribution("pyarrow", floor=26, below=27),
        check_distribution("pandas", floor=2, below=3),
        check_stores(stores),
        check_consensus(stores),
    ]


def require_matching_pyspark() -> None:
    """Refuse to go on with a PySpark that is missing or mixed from two distributions.

    Raises: InvalidRequest, whose cure is the exact command.
    """
    facts = pyspark_facts()
    if facts == PysparkFacts(None, None, None, None):
        raise InvalidRequest("this needs Spark", missing="pyspark", cure=cure_of("spark"))
    check = check_pyspark(facts)
    if not check.ok:
        raise InvalidRequest("this PySpark cannot be used", found=check.found, cure=check.cure)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> DoctorLine:
    """Check the running interpreter's version."""
    found = ".".join(map(str, version))
    if version[:2] >= PYTHON_FLOOR:
        return DoctorLine("python", True, f"{found} at {sys.executable}")
    return DoctorLine("python", False, found, "use Python 3.11 or newer")


def check_java(environ: Mapping[str, str] = os.environ) -> DoctorLine:
    """Check that the Java which Spark would start is new enough."""
    home = environ.get("JAVA_HOME")
    path = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    )
    if not path:
        return DoctorLine("java", False, "no java in PATH and no JAVA_HOME", JAVA_CURE)
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorLine("java", False, f"{path} does not run: {error}", JAVA_CURE)
    major = java_major(done.stderr + done.stdout)
    if major is None:
        return DoctorLine("java", False, f"{path} does not show its version", JAVA_CURE)
    ok = major >= JAVA_FLOOR
    return DoctorLine("java", ok, f"{major} at {path}", "" if ok else JAVA_CURE)


def java_major(text: str) -> int | None:
    """Return the major version in the output of `java -version`; None if there is none.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_1"')
    (17, 8)
    """
    match = _JAVA_VERSION.search(text)
    if match is None:
        return None
    major, _, minor = match["version"].partition(".")
    return int(minor) if major == "1" and minor else int(major)


def pyspark_facts(path: Iterable[str] | None = None) -> PysparkFacts:
    """Return what is installed on `path` (default: where this interpreter imports from)."""
    where = list(sys.path if path is None else path)
    folder = next((p for p in (Path(w, "pyspark") for w in where) if os.path.isdir(p)), None)
    distribution = _distribution_version("pyspark", where)
    if folder is None and distribution is None and (own := _zipped_version(where)):
        # An executor, or a driver in a cluster: the PySpark that Spark itself brings.
        return PysparkFacts(own, own, own, _distribution_version("pyspark-client", where))
    return PysparkFacts(
        module=_module_version(folder),
        distribution=distribution,
        jar=_jar_version(folder),
        client=_distribution_version("pyspark-client", where),
    )


def _zipped_version(path: Iterable[str]) -> str | None:
    """Return the version of the `pyspark.zip` of a Spark on the path; None: there is none."""
    for archive in (Path(entry) for entry in path if Path(entry).name == "pyspark.zip"):
        try:
            text = zipfile.ZipFile(archive).read("pyspark/version.py").decode()
        except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError):
            continue
        if match := _VERSION_LINE.search(text):
            return match["version"]
    return None


def check_pyspark(facts: PysparkFacts) -> DoctorLine:
    """Check that PySpark is whole and of one version."""
    name = "pyspark"
    # Without a record of pyspark the jars say best what was meant to be there.
    wanted = facts.distribution or facts.jar
    if wanted is None:
        return DoctorLine(name, False, "not installed", cure_of("spark"))
    cure = install_command(f"pyspark=={wanted}")
    if facts.client is not None:
        found = f"pyspark {wanted} overwritten by pyspark-client {facts.client}"
        return DoctorLine(name, False, found, f"{uninstall_command('pyspark-client')} && {cure}")
    versions = {"record": facts.distribution, "module": facts.module, "jars": facts.jar}
    if set(versions.values()) != {wanted}:
        found = ", ".join(f"{part} {version or 'missing'}" for part, version in versions.items())
        return DoctorLine(name, False, found, cure)
    return DoctorLine(name, True, wanted)


def check_distribution(name: str, *, floor: int = 0, below: int | None = None) -> DoctorLine:
    """Check that a distribution's major version is in [floor, below)."""
    version = _distribution_version(name, list(sys.path))
    wanted = f"{name}>={floor}" + (f",<{below}" if below is not None else "")
    cure = install_command(f"'{wanted}'")
    if version is None:
        return DoctorLine(name, False, "not installed", cure)
    major = int(version.split(".")[0])
    ok = floor <= major and (below is None or major < below)
    return DoctorLine(name, ok, version, "" if ok else cure)


def check_stores(settings: StoreSettings) -> DoctorLine:
    """Check that both stores answer, and that a blob is written once, read and deleted."""
    # Imported here: the guard at the head of a job must not need a database driver.
    from strata.store.open import only_reads, open_stores

    where = f"{without_password(settings.blob)}, {without_password(settings.consensus)}"
    cure = "see [store] in the settings file"
    try:
        stores = open_stores(settings)
        shards = sum(1 for _ in stores.consensus.list())
        reads = only_reads(stores)
        wrong = "" if reads else _wrong_with(stores.blob)
        if reads and (first := next(iter(stores.blob.list("")), None)) is not None:
            stores.blob.get(first.key, 0, 1)
    except (StrataError, OSError) as error:
        return DoctorLine("stores", False, f"{where}: {error}", cure)
    if wrong:
        return DoctorLine("stores", False, f"{where}: {wrong}", cure)
    found = f"{where}: {shards} {'shard' if shards == 1 else 'shards'}"
    return DoctorLine("stores", True, found + UNSEEN * reads)


def _wrong_with(blob: Blob) -> str:
    """Return why a store must not be used, "" if nothing speaks against it."""
    blob.set(PROBE_KEY, b"probe")
    try:
        if blob.get(PROBE_KEY) != b"probe":
            return "a blob reads back as something else"
        try:
            blob.set(PROBE_KEY, b"another")
        except InvalidRequest:
            return ""
        return (
            "a blob was overwritten: this server ignores the condition of a write (If-None-Match)"
        )
    finally:
        blob.delete(PROBE_KEY)


def check_consensus(settings: StoreSettings) -> DoctorLine:
    """Check that the database keeps what it acknowledges; one that does not answer fails too."""
    from strata.store.open import describe_consensus, open_stores

    name, cure = "consensus", "see docs/reference/state.md, Databases"
    try:
        found, wrong = describe_consensus(open_stores(settings))
    except StrataError as error:
        return DoctorLine(name, False, str(error), cure)
    return DoctorLine(
        name, not wrong, f"{found}: {wrong}" if wrong else found, cure if wrong else ""
    )


def install_command(requirement: str) -> str:
    """Return the command that puts `requirement` into this interpreter's environment."""
    return f"{_installer('install')} --no-deps --force-reinstall {requirement}"


def uninstall_command(distribution: str) -> str:
    """Return the command that removes a distribution from this interpreter's environment."""
    return f"{_installer('uninstall')} {distribution}"


def _installer(verb: str) -> str:
    # An environment made by uv has no pip of its own.
    if importlib.util.find_spec("pip") is None:
        return f"uv pip {verb} --python {sys.executable}"
    return f"{sys.executable} -m pip {verb}" + (" -y" if verb == "uninstall" else "")


def _module_version(folder: Path | None) -> str | None:
    text = folder / "version.py" if folder else None
    if text is None or not text.is_file():
        return None
    match = _VERSION_LINE.search(text.read_text(encoding="utf-8"))
    return match["version"] if match else None


def _jar_version(folder: Path | None) -> str | None:
    names = sorted(p.name for p in (folder / "jars").glob("spark-core_*.jar")) if folder else []
    versions = {m["version"] for m in map(_SPARK_JAR.fullmatch, names) if m}
    return " and ".join(sorted(versions)) or None


def _distribution_version(name: str, path: list[str]) -> str | None:
    found = next(iter(metadata.distributions(name=name, path=path)), None)
    return found.version if found else None

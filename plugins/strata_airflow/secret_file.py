"""Secret settings of Spark: which they are, and the file that hands them to `spark-submit`.

Every user of a machine sees command lines. The file is for its owner alone, and goes with the job.
A task that is killed leaves it behind; the next task that writes one removes what is left.
"""

import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from airflow.sdk.exceptions import AirflowFailException

BEGINS, ENDS = "strata-secrets-", ".conf"
LEFT_S: Final = 3600  # Spark reads the file when it starts, within seconds
CUT_OFF: Final = "".join(chr(code) for code in range(33) if chr(code) not in "\r\n")

_SECRET: Final = re.compile(
    r"(?i)(?:\b|_|access|account|api|private)key\b|secret|token|passw|\bpass\b|sas\b|credentials?$"
)


def is_secret(name: str) -> bool:
    """Return whether a setting of this name is nobody else's to see.

    >>> is_secret("fs.s3a.secret.key"), is_secret("spark.executor.memory")
    (True, False)
    >>> is_secret("spark.cosmos.accountKey"), is_secret("es.net.http.auth.pass")
    (True, True)
    """
    return _SECRET.search(name) is not None


def secrets_of(conf: Mapping[str, Any]) -> list[str]:
    """Return the values of Spark's settings that a log or a message may not show.

    Airflow knows names such as `secret.key`, and not those of other stores' keys.

    >>> secrets_of({"fs.azure.account.key.x": "abc", "fs.s3a.path.style.access": "true"})
    ['abc']
    """
    values = (str(value) for name, value in conf.items() if is_secret(name))
    return sorted(filter(None, values), key=len, reverse=True)


def check_blanks(conf: Mapping[str, Any]) -> None:
    """Refuse a secret whose ends Spark cuts off when it reads a file of properties.

    Raises: AirflowFailException, naming the setting.
    """
    for name, value in conf.items():
        if is_secret(name) and str(value) != str(value).strip(CUT_OFF):
            raise AirflowFailException(
                f"the secret setting {name} begins or ends with a blank, which Spark cuts off: "
                "take the blank out of the connection, or change the secret"
            )


def write_secrets(lines: Sequence[str]) -> Path:
    """Return a new file with these lines, after removing those that killed tasks left."""
    _remove_left(Path(tempfile.gettempdir()))
    number, name = tempfile.mkstemp(prefix=BEGINS, suffix=ENDS)  # for its owner alone
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)


def _remove_left(folder: Path) -> None:
    """Remove files of this user that are older than any start of a job."""
    for file in folder.glob(f"{BEGINS}*{ENDS}"):
        with suppress(OSError):  # another task was faster
            found = file.lstat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > LEFT_S:
                file.unlink()


def property_line(name: str, value: str) -> str:
    r"""Return a line of a file of properties, as Java reads it.

    >>> print(property_line("a b", "c\\d\n#e="))
    a\ b=c\\d\n#e=
    """
    escapes = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})
    key = re.sub(r"([ \t=:#!])", r"\\\1", name.translate(escapes))
    return f"{key}={value.translate(escapes)}"

"""Make what the containers of compose.yaml need once: `python /etc/strata/first.py`.

The bucket of the settings, the password of Airflow's administrator, Airflow's tables, and the pool
of the DAGs. Safe to repeat: what is there is left alone, the password is written anew.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from strata.config.settings import load_settings
from strata.store.s3_client import S3Address

PASSWORD: Final = "AIRFLOW_PASSWORD"
USERS: Final = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"
PASSWORDS_FILE: Final = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
COMMANDS: Final = (
    ("airflow", "db", "migrate"),
    ("python", "-m", "strata_airflow.setup", "--slots", "1"),
)


def main() -> int:
    """Make all of it; return the exit code of the first command that failed, or 0."""
    make_bucket(load_settings(None, os.environ).store.blob)
    keep_password(os.environ)
    for command in COMMANDS:
        if code := subprocess.run(command, check=False).returncode:
            return code
    return 0


def make_bucket(blob: str) -> None:
    """Create the bucket of the address `blob`, unless it is there. Raises: botocore's errors."""
    import boto3
    from botocore.exceptions import ClientError

    place = S3Address.parse(blob)
    client = boto3.client("s3", endpoint_url=place.endpoint, region_name=place.region)
    try:
        client.head_bucket(Bucket=place.bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        client.create_bucket(Bucket=place.bucket)


def keep_password(environ: Mapping[str, str]) -> None:
    """Write the password of every user for Airflow, readable by the owner only."""
    names = [user.partition(":")[0] for user in environ[USERS].split(",")]
    file = Path(environ[PASSWORDS_FILE])
    file.touch(0o600)
    file.write_text(json.dumps(dict.fromkeys(names, environ[PASSWORD])), "utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""The only place that defines how Airflow submits this project's Spark jobs.

`spark_job` makes the task. Its operator extends the provider's with four corrections:

* a connection that does not exist is an error (the provider would silently submit to YARN);
* Spark's workers run this worker's Python, with `spark-submit` from the same environment;
* the job's result comes back: a table in the log, counts in XCom and in the asset's event;
* a failure that another try cannot cure (bad request, mismatch, corruption) is not retried.

Retries of everything else are safe: a job repeats its commit token, and the state refuses a
second commit of the same work.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context, ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from strata_airflow import results
from strata_airflow.assets import tell, tell_nobody
from strata_airflow.commands import check_words
from strata_airflow.console import ShardLink
from strata_airflow.hooks import StoreAccess, StrataHook
from strata_airflow.notify import VARIABLE, StrataNotifier, message_of, send
from strata_airflow.places import PYTHONPATH, config_file, job_file, results_dir
from strata_airflow.report import ReportLink, address
from strata_airflow.secret_file import (
    check_blanks,
    is_secret,
    property_line,
    secrets_of,
    write_secrets,
)
from strata_airflow.silence import Silence

CONNECTION: Final = "strata_spark"
POOL: Final = "strata_spark"
LOGGING: Final = Path(__file__).with_name("log4j2.properties")  # else 127 lines before the job's
CURE: Final = "run `python -m strata_airflow.setup` in Airflow's environment (`make up` does)"


class LostRace(AirflowException):
    """Another writer of the shard was faster, or this writer was too slow: nothing is wrong."""


class MayPass(AirflowException):
    """The job failed for a reason that may pass: an unavailable store, a dead machine."""


# Final failures (AirflowFailException: mismatches, corruption, bad requests) are never retried.
POLICY: Final = ExceptionRetryPolicy(
    rules=[
        RetryRule(LostRace, RetryAction.RETRY, timedelta(seconds=10), "lost a race: at once again"),
        RetryRule(MayPass, RetryAction.RETRY, timedelta(minutes=2), "may pass: in a while again"),
    ]
)

# The default arguments of tasks in every DAG of the project.
DEFAULT_ARGS: Final[dict[str, Any]] = {
    "owner": "strata",
    "retries": 2,  # of failures that may pass; see StrataJobOperator for those that do not
    "retry_delay": timedelta(seconds=30),
    "retry_policy": POLICY,
    "execution_timeout": timedelta(hours=6),
    "on_failure_callback": [StrataNotifier()],  # does nothing unless STRATA_NOTIFY names receivers
}


DRY: Final = frozenset({"--dry-run", "--plan"})  # flags with which a job changes nothing


class StrataJobOperator(SparkSubmitOperator):
    """Submit a job of `strata.jobs` and bring back its result.

    `arguments` are flags with templates as values. The rendered value decides: an empty text,
    `None` or `False` omits the flag; `True` gives the bare flag; any other value repeats the flag
    for each word. Words are names and times, which hold no spaces. Of `--shard` all are names.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "command",
        "arguments",
        "config",
        "partitions",
        "shards",
        "strata_conn_id",
    )
    ui_color = "#e8f0ff"
    operator_extra_links = (ReportLink(), ShardLink())

    def __init__(  # noqa: PLR0913  all of them are keywords
        self,
        *,
        job: str,
        command: Sequence[str] = (),
        arguments: Mapping[str, str] | None = None,
        config: str = "",
        partitions: str = "",
        shards: str = "",
        strata_conn_id: str = "",
        **kwargs: Any,
    ) -> None:
        """Take the job's name, its positional words and its flags; all but the name are templates.

        `partitions`: keys, as words, of the job's asset events, if the run itself has none.
        `shards`: those of one group (`strata_airflow.groups`), instead of the flag `--shard`.
        `strata_conn_id`: the connection with the stores; empty: those of the worker's settings.
        """
        super().__init__(
            application=job_file(job),
            conn_id=CONNECTION,
            name=f"strata {job} {{{{ run_id }}}} {{{{ ti.map_index }}}}",
            **kwargs,
        )
        self.job = job
        self.command = list(command)
        self.arguments = dict(arguments or {})
        self.config = config
        self.partitions = partitions
        self.shards = shards
        self.strata_conn_id = strata_conn_id
        self.report = ""  # the index of the report that the job wrote, if it wrote one
        self.report_url = ""  # likewise on S3
        self._silence: Silence | None = None
        self._secret_file: Path | None = None

    @property
    def report_links(self) -> tuple[str, ...]:
        """Return the addresses of the job's report: in Airflow, on S3."""
        return tuple(filter(None, (address(self.report), self.report_url)))

    @property
    def group(self) -> str:
        """Return the name of this task among the tasks of its groups."""
        first, *others = self.shards.split() or [self.job]
        return f"{first} and {len(others)} more" if others else first

    @property
    def _dry(self) -> bool:
        """Return whether the job was asked to change nothing."""
        return not DRY.isdisjoint(self.application_args or ())

    def of_group(self, context: Context) -> dict[str, str]:
        """Return the flags of its group: a list gave its shards if the run's form names none."""
        if not self.shards:
            return {}
        asked = (context.get("params") or {}).get("shards")
        return {"--shard": self.shards, "--found": str(not asked)}

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Submit the job, wait, and return a compact result.

        Raises: AirflowFailException when another try cannot help, AirflowException otherwise.
        """
        access = StrataHook(self.strata_conn_id).get_conn() if self.strata_conn_id else None
        self._conn_id = access.spark if access else CONNECTION
        extra = connection_extra(self._conn_id)
        self._prepare_submission(extra)
        settings = self.config or extra.get("settings") or config_file()
        if access is not None:
            settings = access.settings
            self._hand_over(access, extra)
        file = result_file(results_dir(), context["ti"])
        self.application_args = [
            *self.command,
            *flags(self.arguments | self.of_group(context)),
            *(["--config", settings] if settings else []),
            "--result",
            str(file),
        ]
        check_words(self.application_args)
        words = " ".join([*self.command, *flags(self.arguments)])
        self.log.info("%s %s", self.job, words or "of every shard")
        self._silence = Silence()
        try:
            with self._silence.broken(self.log.info):
                super().execute(context)
        except AirflowException as error:
            # Without the hook's own error, whose trace repeats the whole log below the reason.
            raise self._failure(file, error) from None
        finally:
            self._close_output()
            if self._secret_file is not None:
                self._secret_file.unlink(missing_ok=True)
        result = results.read_result(file)
        self._keep_report(result)
        dry = self._dry
        self._say(result, details=True)
        self._remark(context, result)
        counts = results.counts(result)
        if dry:
            tell_nobody(context["ti"])
        else:
            tell(context["outlet_events"], self.outlets or [], counts, self.partitions)
        return {"job": self.job, "counts": counts, "result": str(file), "dry_run": dry}

    def _get_hook(self) -> Any:
        """Return the provider's hook, and listen to what its program prints."""
        hook: Any = super()._get_hook()
        self._hide_secrets(hook)
        if self._silence is not None:
            heard, read = self._silence.heard, hook._process_spark_submit_log
            hook._process_spark_submit_log = lambda lines: read(heard(lines))
        return hook

    def _hide_secrets(self, hook: Any) -> None:
        """Move secret settings into a file of ours: every user of a machine sees command lines."""
        secret = {name: value for name, value in hook._conf.items() if is_secret(name)}
        if not secret:
            return
        before, more = hook._properties_file, hook._build_spark_common_args
        lines = [Path(before).read_text("utf-8")] if before else []
        lines += [property_line(name, str(value)) for name, value in secret.items()]
        self._secret_file = write_secrets(lines)
        hook._conf = {name: value for name, value in hook._conf.items() if name not in secret}
        hook._properties_file = str(self._secret_file)
        if not before:  # else Spark would read its defaults no more
            hook._build_spark_common_args = lambda: [*more(), "--load-spark-defaults"]

    def _say(self, result: Mapping[str, Any], *, details: bool) -> None:
        """Log what happened: in one line, then in tables, then where to look."""
        first = results.headline(self.job, result, dry=self._dry)
        rest = filter(None, (results.table(result), results.details(result) if details else ""))
        self.log.info("Result of %s\n%s", first, "\n\n".join(rest))
        for link in self.report_links:
            self.log.info("Report: %s", link)

    def _hand_over(self, access: StoreAccess, extra: Mapping[str, Any]) -> None:
        """Give a store's addresses to the driver, in its environment: they may hold a password."""
        if not access.environment:
            return
        master = str(BaseHook.get_connection(self._conn_id).host or "")
        if extra.get("deploy-mode") == "cluster" or master.startswith(("yarn", "k8s://")):
            raise AirflowFailException(
                f"connection {self.strata_conn_id!r} has addresses, which Spark would write on a"
                " command line (cure: 'settings' in its extra, a file that the driver can read)"
            )
        self.env_vars = {**(self.env_vars or {}), **access.environment}

    def _keep_report(self, result: Mapping[str, Any]) -> None:
        self.report = str(result.get("report", ""))
        self.report_url = str(result.get("report_url", ""))

    def _prepare_submission(self, extra: Mapping[str, Any]) -> None:
        """Set what depends on the worker and on the connection, not on the DAG file."""
        here = Path(sys.executable).parent
        self.env_vars = {
            "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **PYTHONPATH,
            **(self.env_vars or {}),
        }
        remote = extra.get("deploy-mode") == "cluster"  # the driver has no file of this machine
        options = [
            "" if remote else f"-Dlog4j2.configurationFile=file:{LOGGING}",
            extra.get("driver-java-options", ""),
        ]
        self.conf = {
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": " ".join(filter(None, options)),
            **extra.get("spark-conf", {}),
            **(self.conf or {}),
        }
        if self.conf.get("spark.pyspark.python"):  # the executors' own, from an archive or an image
            self._use_own_python(remote=remote)
        for secret in secrets_of(self.conf):
            mask_secret(secret)
        check_blanks(self.conf)
        memory = extra.get("driver-memory")
        if memory:
            self._driver_memory = str(memory)

    def _use_own_python(self, *, remote: bool) -> None:
        """Give this machine's paths only to a driver on this machine."""
        if remote:  # the provider hands these to YARN's and Kubernetes' drivers as well
            self.env_vars = {}
            return
        self.conf = {"spark.pyspark.driver.python": sys.executable, **(self.conf or {})}
        own = self.conf["spark.pyspark.python"]
        self.env_vars = {**(self.env_vars or {}), "PYSPARK_PYTHON": own}

    def _remark(self, context: Context, result: Mapping[str, Any]) -> None:
        """Notify people of findings that they should look at, although the job ended well."""
        lines = results.remarks(result)
        for line in lines:
            self.log.warning(line)
        if lines:
            message = message_of({**context, "exception": "\n".join(["to be looked at", *lines])})
            subject = message.subject.replace(" failed in ", " ended with remarks in ")
            send(replace(message, subject=subject), os.environ.get(VARIABLE, ""))

    def _close_output(self) -> None:
        """Close the pipe of spark-submit, which the provider's hook leaves open."""
        output = getattr(getattr(self._hook, "_submit_sp", None), "stdout", None)
        if output is not None:
            output.close()

    def _failure(self, file: Path, error: Exception) -> AirflowException:
        """Return the error to raise: final or not, with the job's own reason before the log."""
        process = getattr(self._hook, "_submit_sp", None)
        code = getattr(process, "returncode", None)
        result = results.read_result(file)
        self._keep_report(result)
        verdict = results.judge(code if code is not None else 1, result)
        self.log.error(verdict.reason)
        if result:
            self._say(result, details=False)
        if verdict.final:
            return AirflowFailException(verdict.reason)
        said = f"{verdict.reason}\n{error}"  # with the command, and what it printed last
        for secret in secrets_of(self.conf or {}):
            said = said.replace(secret, "***")
        return (LostRace if verdict.lost else MayPass)(said)


def spark_job(job: str, **kwargs: Any) -> StrataJobOperator:
    """Return the task that runs a job of `strata.jobs`; `kwargs` as of `job_arguments`.

    One Spark application serves all shards of a run; for several see `strata_airflow.groups`.
    """
    return StrataJobOperator(**job_arguments(job, **kwargs))


def job_arguments(
    job: str,
    *,
    task_id: str | None = None,
    command: Sequence[str] = (),
    arguments: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Return the arguments of a job's operator; `arguments` are flags and templates."""
    return {
        "job": job,
        "task_id": task_id or job,
        "command": command,
        "arguments": arguments or {},
        "pool": POOL,
        **kwargs,
    }


def flags(arguments: Mapping[str, str]) -> list[str]:
    """Return command-line words for rendered `arguments`, as StrataJobOperator describes.

    >>> flags({"--shard": "a b", "--dry-run": "True", "--full": "False", "--now": "None"})
    ['--shard', 'a', '--shard', 'b', '--dry-run']

    A shard may be called like an empty answer; without its name a job would take every shard.

    >>> flags({"--shard": "None"})
    ['--shard', 'None']
    """
    words: list[str] = []
    for flag, value in arguments.items():
        rendered, named = str(value).strip(), flag == "--shard"
        if not rendered or (rendered in {"None", "False"} and not named):
            continue
        if rendered == "True" and not named:
            words.append(flag)
            continue
        for word in rendered.split():
            words += [flag, word]
    return words


def result_file(folder: Path, ti: Any) -> Path:
    """Return a new place for this try's result, in a folder that exists."""
    name = f"{ti.task_id}.{ti.map_index}.try{ti.try_number}.json"
    file = folder / _safe(ti.dag_id) / _safe(ti.run_id) / _safe(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    return file


def connection_extra(conn_id: str) -> dict[str, Any]:
    """Return the connection's extra settings.

    Raises: AirflowFailException if the connection does not exist: without this check, the provider
    logs one line and submits to YARN.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowFailException(f"no connection {conn_id!r} in Airflow: {CURE}") from error
    return dict(connection.extra_dejson)


def _safe(text: str) -> str:
    """Return `text` as one path component; run ids hold colons and plus signs."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)

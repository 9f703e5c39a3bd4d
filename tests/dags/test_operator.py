"""The operator's own decisions, with the hook's process as the only thing left out."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from strata_airflow import report, silence, spark
from strata_airflow.assets import BATCHES
from strata_airflow.notify import message_of
from strata_airflow.setup import connection_variable

pytestmark = pytest.mark.dags


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("STRATA_RESULTS", str(tmp_path / "results"))
    ti = SimpleNamespace(
        dag_id="d",
        run_id="manual__2026-01-01T00:00:00+00:00",
        task_id="t",
        map_index=-1,
        try_number=1,
    )
    return {"ti": ti, "outlet_events": {}}


@pytest.fixture
def connection(monkeypatch):
    for name, value in connection_variable("local[1]", "512m").items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def submit(tmp_path, monkeypatch):
    """Put a `spark-submit` of the test's own first in PATH of the operator's environment."""

    def install(body: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "spark-submit"
        program.write_text(f"#!{sys.executable}\nimport json, sys\nargs = sys.argv[1:]\n{body}")
        program.chmod(0o755)
        # The operator puts the folder of its interpreter first.
        interpreter = folder / "python"
        interpreter.symlink_to(sys.executable)
        monkeypatch.setattr(sys, "executable", str(interpreter))

    return install


WRITE = "json.dump({document}, open(args[args.index('--result') + 1], 'w'))\nsys.exit({code})\n"


def job(**kwargs) -> spark.StrataJobOperator:
    return spark.spark_job("compact", arguments={"--full": "True"}, **kwargs)


def test_a_missing_connection_is_an_error_and_not_yarn(context, submit):
    submit("sys.exit(0)")
    with pytest.raises(AirflowFailException, match="no connection 'strata_spark'"):
        job().execute(context)


def test_a_result_becomes_counts(context, connection, submit):
    document = {"shards": [{"shard": "a", "rows": 3}, {"shard": "b", "rows": 4}]}
    submit(WRITE.format(document=document, code=0))
    returned = job().execute(context)
    assert returned["counts"] == {"shards": 2, "rows": 7}
    assert json.loads(Path(returned["result"]).read_text()) == document


def test_the_job_gets_master_memory_flags_and_the_workers_python(context, connection, submit):
    body = (
        "import os\n"
        "said = {'args': args, 'python': os.environ['PYSPARK_PYTHON']}\n"
        + WRITE.format(document="{'shards': {'x': {}}, **said}", code=0)
    )
    submit(body)
    returned = job().execute(context)
    said = json.loads(Path(returned["result"]).read_text())
    words = " ".join(said["args"])
    assert "--master local[1]" in words
    assert "--driver-memory 512m" in words
    assert said["args"][-5] == "--full"
    assert said["python"] == sys.executable


def test_one_application_serves_all_shards_of_a_run(context, connection, submit, tmp_path):
    """They have the job, the form and the settings in common; another form is another run."""
    calls = tmp_path / "calls"
    shards = "{'shards': [{'shard': a} for f, a in zip(args, args[1:]) if f == '--shard']}"
    submit(f"open({str(calls)!r}, 'a').write('x')\n" + WRITE.format(document=shards, code=0))
    context["outlet_events"] = OutletEventAccessors()
    task = spark.spark_job(
        "ingest",
        arguments={"--shard": "a b c"},
        outlets=[BATCHES],
        partitions="2026-11-20T00:00:00 2026-11-21T00:00:00",
    )
    assert task.execute(context)["counts"] == {"shards": 3}
    assert calls.read_text() == "x"
    event = context["outlet_events"][BATCHES]
    assert event.extra == {"shards": 3}
    assert event.partition_keys == {"2026-11-20T00:00:00", "2026-11-21T00:00:00"}


@pytest.mark.parametrize(
    ("code", "document", "final"),
    [
        (1, {}, False),
        (1, {"error": {"kind": "Unavailable", "message": "blob store"}}, False),
        (1, {"error": {"kind": "Corrupt", "message": "digest"}}, True),
        (2, {}, True),
        (3, {"shards": [], "alerts": [{"shard": "a", "part": "p", "bound": "low"}]}, True),
        (4, {"error": {"kind": "Conflict", "message": "lost"}}, False),
        (4, {"error": {"kind": "Fenced", "message": "expired"}}, False),
        (137, {}, False),
    ],
)
def test_only_failures_that_may_pass_are_tried_again(
    context, connection, submit, code, document, final
):
    submit(WRITE.format(document=document, code=code) if document else f"sys.exit({code})\n")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the kind is what is tested
        job().execute(context)
    assert isinstance(caught.value, AirflowFailException) is final
    for alert in document.get("alerts", []):
        assert alert["bound"] in str(caught.value)


def test_no_key_of_a_connection_is_in_what_a_failure_says(context, connection, submit, monkeypatch):
    """The error has the whole command: it is logged, and sent to the receivers of messages."""
    secrets = {"fs.s3a.access.key": "AKIA-111", "fs.azure.account.key.lake": "q+/222=="}
    for name, value in connection_variable("local[1]", "512m", conf=secrets).items():
        monkeypatch.setenv(name, value)
    masked = []
    monkeypatch.setattr(spark, "mask_secret", masked.append)
    read = "open(args[args.index('--properties-file') + 1]).read()"
    submit(f"print(args, {read})\nsys.exit(1)\n")
    with pytest.raises(AirflowException) as caught:
        job().execute(context)
    said = message_of({**context, "exception": caught.value}).text
    assert "fs.azure.account.key.lake=***" in said
    assert not [value for value in secrets.values() if value in said + str(caught.value)]
    assert sorted(masked) == sorted(secrets.values())


@pytest.mark.parametrize("before", ["", "spark.a=1\nspark.b=2"])
def test_no_key_of_a_connection_is_on_a_command_line(
    context, connection, submit, monkeypatch, tmp_path, before
):
    """Every user of a machine sees command lines; the file is for its owner, until Spark ends."""
    secrets = {"spark.hadoop.fs.s3a.secret.key": "q+/2\\2==", "spark.password": "a b=c"}
    conf = {"spark.hadoop.fs.s3a.path.style.access": "true", **secrets}
    for name, value in connection_variable("local[1]", "512m", conf=conf).items():
        monkeypatch.setenv(name, value)
    body = (
        "import os\nfile = args[args.index('--properties-file') + 1]\n"
        "said = {'args': args, 'file': file, 'lines': open(file).read().splitlines(),"
        " 'mode': os.stat(file).st_mode & 0o777}\n"
    )
    submit(body + WRITE.format(document="{'shards': {'x': {}}, **said}", code=0))
    theirs = {}
    if before:
        (tmp_path / "theirs.conf").write_text(before)
        theirs = {"properties_file": str(tmp_path / "theirs.conf")}
    returned = job(**theirs).execute(context)
    said = json.loads(Path(returned["result"]).read_text())

    words = " ".join(said["args"])
    assert not [value for value in secrets.values() if value in words]
    assert "spark.hadoop.fs.s3a.path.style.access=true" in words
    assert ("--load-spark-defaults" in said["args"]) is not bool(before)
    assert said["lines"] == [
        *before.splitlines(),
        "spark.hadoop.fs.s3a.secret.key=q+/2\\\\2==",
        "spark.password=a b=c",
    ]
    assert (said["mode"], Path(said["file"]).exists()) == (0o600, False)


def test_secrets_that_a_killed_task_left_are_removed_by_the_next(
    context, connection, submit, monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("strata-secrets-left.conf", "strata-secrets-starting.conf", "others.conf")
    left, starting, others = (tmp_path / name for name in names)
    for file in (left, starting, others):
        file.write_text("spark.password=a")
    for file in (left, others):
        os.utime(file, (time.time() - 4000,) * 2)
    conf = {"spark.password": "a"}
    for name, value in connection_variable("local[1]", "512m", conf=conf).items():
        monkeypatch.setenv(name, value)
    submit(WRITE.format(document="{'shards': {'x': {}}}", code=0))

    job().execute(context)

    assert [file.exists() for file in (left, starting, others)] == [False, True, True]


@pytest.mark.parametrize("value", [" a", "a\t", "a "])
def test_a_secret_whose_ends_spark_would_cut_off_is_refused_by_name(
    context, connection, submit, monkeypatch, value
):
    """On the command line it was whole; from a file, Spark takes it without the blank."""
    conf = {"spark.password": value, "spark.other": " b "}
    for name, said in connection_variable("local[1]", "512m", conf=conf).items():
        monkeypatch.setenv(name, said)
    submit("sys.exit(0)")
    with pytest.raises(AirflowFailException, match=r"spark\.password begins or ends with a blank"):
        job().execute(context)


@pytest.mark.parametrize(
    ("code", "seconds"), [(4, 10), (1, 120)], ids=["a lost race", "a store away"]
)
def test_a_lost_race_is_run_again_at_once_and_what_may_pass_later(
    context, connection, submit, code, seconds
):
    submit(f"sys.exit({code})\n")
    with pytest.raises(AirflowException) as caught:
        job().execute(context)
    policy = job(**spark.DEFAULT_ARGS).retry_policy
    decision = policy.evaluate(caught.value, 1, 2)
    assert decision.action is RetryAction.RETRY
    assert decision.retry_delay.total_seconds() == seconds


def test_remarks_of_an_ingest_that_ended_well_are_told(
    context, connection, submit, monkeypatch, caplog
):
    told = []
    monkeypatch.setattr(spark, "send", lambda message, to: told.append((message, to)))
    monkeypatch.setenv(spark.VARIABLE, "slack+https://here")
    shards = [
        {"shard": "a", "batches": 1, "files": 2, "rejected": 3, "changed": ["x.csv"], "late": 0},
        {"shard": "b", "batches": 1, "files": 0},
        {"shard": "c", "batches": 0, "files": 0},
    ]
    submit(WRITE.format(document={"shards": shards, "dry_run": False}, code=0))
    job().execute(context)
    ((message, to),) = told
    assert to == "slack+https://here"
    assert "ended with remarks in manual__2026" in message.subject
    assert [line.partition(":")[0] for line in message.lines] == ["a", "a", "b"]
    assert "strata quarantine show a" in message.text
    assert "no file came" in message.text


def test_a_rehearsal_and_a_quiet_run_tell_nobody(context, connection, submit, monkeypatch):
    told = []
    monkeypatch.setattr(spark, "send", lambda message, to: told.append(message))
    shards = [{"shard": "a", "batches": 1, "files": 0, "rejected": 3}]
    submit(WRITE.format(document={"shards": shards, "dry_run": True}, code=0))
    job().execute(context)
    assert told == []


def test_a_task_leads_to_the_report_that_it_wrote(
    context, connection, submit, monkeypatch, tmp_path
):
    monkeypatch.setenv("STRATA__VALIDATE__REPORT_DIR", str(tmp_path / "report"))
    index = tmp_path / "report" / "site" / "data docs" / "index.html"
    submit(
        WRITE.format(
            document={
                "shards": [],
                "report": str(index),
                "report_url": "s3://docs/site/index.html",
            },
            code=3,
        )
    )
    task = job()
    with pytest.raises(AirflowFailException):
        task.execute(context)
    link, shard = task.operator_extra_links
    assert link.get_link(task, ti_key=None).endswith("/strata-report/data%20docs/index.html")
    assert shard.get_link(task, ti_key=None).endswith("/strata/")
    told = message_of({**context, "task": task, "exception": "found"})
    assert told.links == (link.get_link(task, ti_key=None), "s3://docs/site/index.html")
    assert report.address("../secret") == ""
    assert report.address("") == ""


def test_a_result_of_an_earlier_try_is_not_taken_for_this_one(context, connection, submit):
    stale = spark.result_file(Path(os.environ["STRATA_RESULTS"]), context["ti"])
    stale.write_text('{"shards": {"old": {"rows": 1}}}')
    submit("sys.exit(0)")
    assert job().execute(context)["counts"] == {"shards": 0}


@pytest.fixture
def said(monkeypatch):
    """Return the texts that the operator logs, in order."""
    texts = []

    def tell(text, *args):
        texts.append(text % args if args else text)

    log = SimpleNamespace(info=tell, warning=tell, error=tell)
    monkeypatch.setattr(spark.StrataJobOperator, "log", log)
    return texts


# As wide as the results of validate and of ingest were before they were cut.
WIDE = {
    "shards": [
        {
            "shard": f"flights_of_{n}",
            "lower": 1_357_000_000_000,
            **{f"counted_number_{m}": n * m * 1_000_000 for m in range(24)},
            "filters": [{"name": "christmas", "sql": "a > 'b' and " * 40, "parts": 7 + n}] * 2,
            **{"untouched": 0, "late": 0},
        }
        for n in (1, 2)
    ]
}


def test_a_log_says_first_what_happened_and_fits_120_columns(context, connection, submit, said):
    submit(WRITE.format(document=WIDE, code=0))
    task = job()
    task.execute(context)
    assert said.index("compact --full") == 1  # behind a warning of Airflow's, outside of a worker
    (result,) = (text for text in said[1:] if text.startswith("Result of"))
    first, *lines = result.splitlines()
    assert first.startswith("Result of compact: 2 shards; counted_number_1 3,000,000, ")
    assert max(len(line) for line in result.splitlines()) <= 120 + len("Result of ")
    assert max(len(line) for line in lines) <= 120
    for number in range(1, 24):  # nothing is lost where a table is cut
        assert sum(f"counted_number_{number} " in f"{line} " for line in lines) >= 1, number
    assert f"{2 * 23 * 1_000_000:,}" in result
    assert any(
        line.startswith("zero: counted_number_0, ") and "untouched" in line for line in lines
    )


def test_a_failed_task_says_why_before_its_tables(context, connection, submit, said):
    document = {"shards": [{"shard": "a", "error": {"kind": "Corrupt", "message": "m"}}]}
    submit(
        WRITE.format(document={**document, "error": {"kind": "Corrupt", "message": "m"}}, code=1)
    )
    with pytest.raises(AirflowFailException, match="Corrupt: m"):
        job().execute(context)
    at = said.index("Corrupt: m")
    assert said[at + 1].startswith("Result of compact: 1 shard, 1 of them failed")
    assert not any(str(Path(os.environ["STRATA_RESULTS"])) in text for text in said)


def test_a_program_that_prints_nothing_is_told_of(context, connection, submit, said, monkeypatch):
    monkeypatch.setattr(silence, "EVERY_SECONDS", 0.4)
    body = (
        "import time\ntime.sleep(1.6)\nfor n in range(8): print(n, flush=True); time.sleep(0.2)\n"
    )
    submit(body + WRITE.format(document={"shards": []}, code=0))
    job().execute(context)
    quiet = [at for at, text in enumerate(said) if text.startswith("spark-submit has printed")]
    talk = [at for at, text in enumerate(said) if text == "compact --full"]
    assert len(quiet) >= 2
    assert min(quiet) > talk[0]
    seconds = [int(said[at].split()[-2]) for at in quiet]
    assert seconds == sorted(seconds)
    assert len(quiet) <= 6  # none while it prints

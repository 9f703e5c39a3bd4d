"""The fields of the trigger forms that several DAGs share.

An empty selection means all, so a scheduled run needs no answer. Examples are the names of files in
`config/`, which change only with the code (see `strata_airflow.places`).
"""

from typing import Final

from airflow.sdk import Param

from strata_airflow.places import declared_shards, registered_filters

MAIN: Final = "Run Parameters"  # Airflow's own name for the section that it shows unfolded
MORE: Final = "More"
MOST: Final = 2**63 - 1  # Airflow starts no task of a run with a greater number, and says nothing
END: Final = r"(?![\s\S])"  # Python's $ would accept a line end, and browsers have no \Z
NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*" + END
MOMENT: Final = (  # a date, or a time in ISO 8601, and nothing after it
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?" + END
)


def shards(*, every: str = "Leave empty for every shard.") -> Param:
    """Return the selection of shards; `every` says what an empty one means."""
    return Param(
        [],
        type=["array", "null"],  # else the form marks it as required
        items={"type": "string", "pattern": NAME},
        examples=declared_shards(),
        title="Shards",
        description=every,
        section=MAIN,
    )


def filters() -> Param:
    """Return the selection of registered filters; empty means all of each shard."""
    return Param(
        [],
        type=["array", "null"],  # else the form marks it as required
        items={"type": "string", "pattern": NAME},
        examples=registered_filters(),
        title="Filters",
        description="Leave empty for every registered filter, and those that readers used.",
        section=MAIN,
    )


def columns() -> Param:
    """Return the selection of columns; empty means all."""
    return Param(
        [],
        type=["array", "null"],  # else the form marks it as required
        # These become words on a command line: a column with a space in its name needs its id.
        items={"type": "string", "pattern": r"^[^\s\0-][^\s\0]*" + END},
        title="Columns",
        description="Names or ids. Leave empty for all: only their statistics are touched.",
        section=MORE,
    )


def number(title: str, description: str, *, minimum: int = 0) -> Param:
    """Return an optional whole number."""
    return Param(
        None,
        type=["null", "integer"],
        minimum=minimum,
        maximum=MOST,
        title=title,
        description=description,
        section=MORE,
    )


def moment(title: str, description: str) -> Param:
    """Return an optional point in time."""
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        pattern=MOMENT,  # Airflow does not check the format by itself
        title=title,
        description=description,
        section=MAIN,
    )


def switch(title: str, description: str, *, default: bool = False, section: str = MORE) -> Param:
    """Return an on/off field."""
    return Param(default, type="boolean", title=title, description=description, section=section)


def dry_run(what_it_shows: str) -> Param:
    """Return the switch for a run that changes nothing and shows what it would do.

    It is on by default when a person triggers a run or a backfill from a form; see
    `strata_airflow.intervals.rehearsed` for other runs. `what_it_shows` completes the description.
    """
    description = (
        f"Change nothing; {what_it_shows}. It holds for backfills, too; the schedule is real."
    )
    return switch("Dry run", description, default=True, section=MAIN)

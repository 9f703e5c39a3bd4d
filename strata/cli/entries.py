"""The table of commands: where each lives, what it does, and its group in the help."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class CommandEntry:
    """A command or a group of commands: its module, and one line of help."""

    module: str
    help: str


# In the order of the help. A test compares each line with the command's own.
ENTRIES: Final[dict[str, CommandEntry]] = {
    "demo": CommandEntry(
        "demo",
        "Make a folder with a shard of example orders, and say what to try on it. Needs no Java.",
    ),
    "doctor": CommandEntry(
        "doctor",
        "Check Python, Java, PySpark, libraries and stores; exit 1 when something is wrong.",
    ),
    "settings": CommandEntry(
        "doctor",
        "Show every setting's value, and whether a file, a variable or the default sets it.",
    ),
    "shards": CommandEntry("listing", "List the shards with their sizes and modes."),
    "catalog": CommandEntry(
        "catalog",
        "List what there is to read: whose it is, what is in it, until when it is complete.",
    ),
    "create": CommandEntry(
        "shards", "Create a shard from its declaration; repeating it changes nothing."
    ),
    "apply": CommandEntry(
        "apply",
        "Make shards what their files declare; without --yes or --confirm only show the plan.",
    ),
    "inspect": CommandEntry(
        "shards", "Show a shard's frontiers, batches, runs, formats, statistics and mode."
    ),
    "history": CommandEntry(
        "shards", "Show the last operations on a shard, and what each of its last commits changed."
    ),
    "schema": CommandEntry("schema", "Show and change the columns of a shard."),
    "collection": CommandEntry("collections", "Many small collections in one shard."),
    "drop": CommandEntry(
        "shards",
        "Drop a whole shard; a tombstone stays, garbage collection deletes the blobs later.",
    ),
    "ingest": CommandEntry(
        "ingest",
        "Commit files as one batch, exactly once; create a shard that is only declared so far.",
    ),
    "adopt": CommandEntry(
        "adopt", "Take a table of Delta or Iceberg in, or what changed in it since the last time."
    ),
    "own": CommandEntry(
        "own",
        "Copy files of others that parts refer to into the store; then their owner may remove "
        "them.",
    ),
    "quarantine": CommandEntry("quarantine", "Rows that ingest rejected."),
    "source": CommandEntry("source", "Whether incoming rows are trusted."),
    "revert": CommandEntry(
        "diff",
        "Append the retraction of an interval, as if it had not been; a repeat changes nothing.",
    ),
    "read": CommandEntry(
        "reading", "Show the rows of a snapshot; with --where those that satisfy it."
    ),
    "count": CommandEntry(
        "counting", "Count rows, by statistics where they prove the answer, else by reading."
    ),
    "min": CommandEntry(
        "values", "Print the least value of a column, reading only parts that may hold it."
    ),
    "max": CommandEntry(
        "values", "Print the greatest value of a column, reading only parts that may hold it."
    ),
    "distinct": CommandEntry("values", "List the different values of a column, in their order."),
    "exists": CommandEntry(
        "values",
        "Say whether a row satisfies a filter: true or false; stop at the first that counts.",
    ),
    "diff": CommandEntry(
        "diff",
        "Show the rows whose counts differ between two times, each with the difference in d.",
    ),
    "tag": CommandEntry(
        "labels", "Give a time of a shard a name; it stays readable until `strata untag`."
    ),
    "tags": CommandEntry(
        "labels", "List the labels of a shard, and the times that they keep readable."
    ),
    "untag": CommandEntry(
        "labels", "Take a label away; compaction may then merge the history up to the kept time."
    ),
    "together": CommandEntry(
        "together",
        "Print one time at which all these shards can be read, to be given as --as-of.",
    ),
    "changes": CommandEntry(
        "changes",
        "Show the updates of a stretch of time as they were written, retractions included.",
    ),
    "deliver": CommandEntry(
        "changes", "Hand a consumer the changes that it does not have yet, each exactly once."
    ),
    "consumers": CommandEntry(
        "changes", "List who follows the changes, and how far behind; or remove a consumer."
    ),
    "sums": CommandEntry(
        "sums",
        "Keep sums, counts, least and greatest values by groups in another shard, from changes.",
    ),
    "publish": CommandEntry(
        "publish",
        "Show a shard to other engines as an Iceberg table, without a copy; or list its tables.",
    ),
    "explain": CommandEntry(
        "explain", "Say which parts a filter would skip, and what stops the proof for the others."
    ),
    "advise": CommandEntry(
        "advise",
        "Say what would have skipped more of the reads of late, measured, and what it costs.",
    ),
    "stats": CommandEntry("maintain", "Collect, trim and show statistics."),
    "validate": CommandEntry(
        "filters",
        "Fetch what would be skipped and check it; on a mismatch set the mode back and exit 3.",
    ),
    "replay": CommandEntry(
        "filters",
        "Make the decision of a receipt again; exit 3 if it, or what was skipped, was wrong.",
    ),
    "rollout": CommandEntry(
        "rollout", "Which shards may skip parts, since when, and on what evidence."
    ),
    "ui": CommandEntry(
        "ui", "Show the console in a browser of this machine, until you press Ctrl-C."
    ),
    "report": CommandEntry(
        "ui", "Write everything about a shard as one page that needs no network."
    ),
    "compact": CommandEntry("maintain", "Merge the runs that are due; readers see the same rows."),
    "merges": CommandEntry(
        "maintain", "Show the merges under way and the last ones applied, with the cost of each."
    ),
    "holds": CommandEntry(
        "holds",
        "List holds: what each keeps, since when and until when; or take one, or release one.",
    ),
    "gc": CommandEntry("gc", "Find and delete blobs that are no longer needed."),
    "verify": CommandEntry(
        "backup",
        "Read every blob that shards need, and their history; exit 1 if one is damaged or missing.",
    ),
    "backup": CommandEntry(
        "backup", "Add a point to a backup: all blobs that it lacks, and the states of the shards."
    ),
    "backups": CommandEntry(
        "backup", "List the points of a backup, oldest first; with --drop remove some before."
    ),
    "restore": CommandEntry(
        "backup", "Bring shards back from a backup; each begins in mode soft at most."
    ),
    "erase": CommandEntry(
        "erase",
        "Erase rows for good, from all stored bytes; without --confirm only say what would go.",
    ),
    "erasures": CommandEntry("erase", "List the certificates of a shard's erasures, or show one."),
}

# What a person wants, and the commands for it; each command stands in one of them.
PANELS: Final[dict[str, tuple[str, ...]]] = {
    "Begin": (
        "demo",
        "doctor",
        "settings",
    ),
    "Shards": (
        "shards",
        "catalog",
        "create",
        "apply",
        "inspect",
        "history",
        "schema",
        "collection",
        "drop",
    ),
    "Bring data in": (
        "ingest",
        "adopt",
        "own",
        "quarantine",
        "source",
        "revert",
    ),
    "Read": (
        "read",
        "count",
        "min",
        "max",
        "distinct",
        "exists",
        "diff",
        "tag",
        "tags",
        "untag",
        "together",
    ),
    "Follow changes": (
        "changes",
        "deliver",
        "consumers",
        "sums",
        "publish",
    ),
    "Skip what is proven irrelevant": (
        "explain",
        "advise",
        "stats",
        "validate",
        "replay",
        "rollout",
    ),
    "Look at everything": (
        "ui",
        "report",
    ),
    "Keep the store small": (
        "compact",
        "merges",
        "holds",
        "gc",
    ),
    "Keep it safe": (
        "verify",
        "backup",
        "backups",
        "restore",
        "erase",
        "erasures",
    ),
}

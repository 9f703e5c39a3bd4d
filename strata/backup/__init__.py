"""Backups of a store: consistent points of states and blobs, and the way back.

`point` says how a backup is stored, `save` adds a point, `drop` removes some, `restore` brings
shards back, `verify` reads every blob that a shard or a point needs. Source: docs/how-to/backup.md.
"""

from strata.backup.drop import DropReport, drop_points
from strata.backup.point import Backup, Point, SavedShard
from strata.backup.restore import RestoreReport, restore
from strata.backup.save import BackupReport, back_up
from strata.backup.verify import VerifyReport, verify_point, verify_shard

__all__ = [
    "Backup",
    "BackupReport",
    "DropReport",
    "Point",
    "RestoreReport",
    "SavedShard",
    "VerifyReport",
    "back_up",
    "drop_points",
    "restore",
    "verify_point",
    "verify_shard",
]

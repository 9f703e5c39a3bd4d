"""Backups of a store: consistent points of states and blobs, and the way back.

`point` says how a backup is stored, `save` adds a point, `restore` brings shards back, `verify`
reads every blob that a shard or a point needs. Source: docs/how-to/backup.md.
"""

from strata.backup.point import Backup, Point, SavedShard
from strata.backup.restore import RestoreReport, restore
from strata.backup.save import BackupReport, back_up
from strata.backup.verify import VerifyReport, verify_point, verify_shard

__all__ = [
    "Backup",
    "BackupReport",
    "Point",
    "RestoreReport",
    "SavedShard",
    "VerifyReport",
    "back_up",
    "restore",
    "verify_point",
    "verify_shard",
]

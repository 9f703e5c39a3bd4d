"""The statistics job: backfill and trim."""

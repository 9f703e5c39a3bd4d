"""The only part of the engine that knows Spark: filters in, snapshots out, tasks on executors."""

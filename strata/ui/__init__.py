"""The console: pages about shards for people, in Airflow, on a laptop, or as one file.

It only looks. Nothing on a page changes a shard, and nothing that data says is run.
"""

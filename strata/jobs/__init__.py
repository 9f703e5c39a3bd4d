"""The jobs that Airflow submits to Spark: one per folder, with its entry point `main`."""

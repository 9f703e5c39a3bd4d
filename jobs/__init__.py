"""The jobs that Airflow submits to Spark; each folder holds one, with its entry point `main`."""

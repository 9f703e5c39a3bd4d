"""The description of this distribution for Airflow's provider manager."""

from typing import Any

ADDRESSES = {
    "settings": ("Settings file", "As jobs see it. It says everything, so leave the others empty."),
    "blob": ("Blobs", "s3://bucket/prefix or file:///folder"),
    "consensus": ("States", "postgresql://host/database; login and password are added."),
    "landing": ("Landing folder", "Where relative paths of sources begin."),
    "shards_dir": ("Declarations of shards", "A folder."),
    "filters_dir": ("Registered filters", "A folder."),
    "spark_conn_id": ("Spark connection", "Of jobs on this store. Empty: strata_spark."),
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, as Airflow's schema for it says."""
    integration = "Strata"
    return {
        "package-name": "airflow-provider-strata",
        "name": integration,
        "description": "Changelogs as shards of sorted Parquet parts, skipped only on proof.",
        "integrations": [
            {
                "integration-name": integration,
                "external-doc-url": "https://pypi.org/project/airflow-provider-strata/",
                "tags": ["software"],
            }
        ],
        "operators": [_listed(integration, "operators", "spark", "sums")],
        "sensors": [_listed(integration, "sensors")],
        "hooks": [_listed(integration, "hooks")],
        "triggers": [_listed(integration, "triggers", "arrivals")],
        "notifications": ["strata_airflow.notify.StrataNotifier"],
        "extra-links": ["strata_airflow.report.ReportLink", "strata_airflow.console.ShardLink"],
        "asset-uris": [
            {
                "schemes": ["strata"],
                "handler": None,
                "to_openlineage_converter": "strata_airflow.lineage.as_dataset",
            }
        ],
        "connection-types": [
            {
                "hook-class-name": "strata_airflow.hooks.StrataHook",
                "hook-name": integration,
                "connection-type": "strata",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "port", "schema"],
                    "relabeling": {"login": "Database login", "password": "Database password"},
                },
                "conn-fields": {
                    name: {
                        "label": label,
                        "description": description,
                        "schema": {"type": ["string", "null"]},
                    }
                    for name, (label, description) in ADDRESSES.items()
                },
            }
        ],
    }


def _listed(integration: str, *modules: str) -> dict[str, Any]:
    return {
        "integration-name": integration,
        "python-modules": [f"strata_airflow.{name}" for name in modules],
    }

"""DAGs that show how the operators, the sensor and the assets are used."""

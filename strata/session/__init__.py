"""Spark's session, without the engine: Java makes it while the engine is loaded.

Every import of this room looks at the installation of PySpark first.
"""

from strata.config.archives import import_from_files
from strata.config.environment import require_matching_pyspark

# Before the first import of pyspark, whose installation may be a broken mixture
import_from_files()
require_matching_pyspark()

"""dbt over the Spark session of this process, in which `spark.sql` takes episode's clauses: python run.py build"""

import sys

from dbt.cli.main import dbtRunner

import episode.auto  # noqa: F401 - models may hold MATCH_RECOGNIZE, EVENTS and SITUATIONS

sys.exit(0 if dbtRunner().invoke(sys.argv[1:]).success else 1)

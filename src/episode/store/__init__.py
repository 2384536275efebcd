"""Stream stores: live logs, their archives, and the catalog of declared streams. Files and manifests, no Spark."""

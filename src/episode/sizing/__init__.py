"""How large a cluster must be: a cost model of measured parts. No Spark is needed for it."""

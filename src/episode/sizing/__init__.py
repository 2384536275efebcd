"""How large a cluster must be: a cost model of measured parts, and a simulated cluster. No Spark is needed for it."""

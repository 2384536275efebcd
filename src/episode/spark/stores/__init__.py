"""Stream stores in Spark: their catalog, the data source `episode`, and Kafka topics as live stores."""

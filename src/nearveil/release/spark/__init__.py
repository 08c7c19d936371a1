"""The Spark engine: protects more people than one machine holds."""

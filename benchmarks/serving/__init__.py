"""What the load test of the service is made of."""

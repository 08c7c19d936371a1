"""The running service: HTTP in front of the publisher, the index and a store."""

"""A client of a running service, and the audit of one's own service through its public interface."""

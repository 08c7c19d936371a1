"""What protection costs those who use the service."""

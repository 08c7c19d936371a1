"""What an auditor does to a nearby service, seeing ranked lists only."""

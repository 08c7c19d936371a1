"""What Nearveil is compared with, where it is not a single call."""

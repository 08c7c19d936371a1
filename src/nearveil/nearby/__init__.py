"""The core of a nearby service: the index of who is near, publishing of noisy locations, and stores."""

"""Who is near: the k-nearest index behind a nearby service."""

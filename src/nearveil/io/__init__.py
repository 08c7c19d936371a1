"""Files in and out: CSV, GeoJSON and GeoParquet; and a made-up city."""

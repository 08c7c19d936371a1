"""Tables, charts, maps, pages and pictures of attacks, audits and experiments."""

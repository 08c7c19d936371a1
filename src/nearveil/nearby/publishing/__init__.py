"""From a report to a published place: the public grid, the keyed noise, the policies, and the publisher."""

"""One attack on one person in pictures: a drawing, an animated GIF, and a page with a player."""

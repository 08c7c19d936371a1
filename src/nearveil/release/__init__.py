"""Files of any size through a mechanism: read, move and write at once, in little memory."""

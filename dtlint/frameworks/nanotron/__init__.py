"""nanotron: its config."""

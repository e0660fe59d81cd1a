"""OpenRLHF: its arguments."""

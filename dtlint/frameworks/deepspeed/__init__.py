"""DeepSpeed: its config as a file and as a dict, and its launcher."""

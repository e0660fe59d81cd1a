"""LLaMA-Factory: its command, and what it refuses."""

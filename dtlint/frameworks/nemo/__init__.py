"""NeMo: its YAML, its recipes in Python, and NeMo-RL."""

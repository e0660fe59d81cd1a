"""torchtitan: its TOML, its configs in Python, and its launcher."""

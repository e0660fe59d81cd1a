"""torchtune: its configs and its command."""

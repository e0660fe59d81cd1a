"""Axolotl: its config and its commands."""

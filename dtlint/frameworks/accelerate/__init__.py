"""Accelerate: its config file, its command line, and its Accelerator in a program."""

"""Hugging Face's Trainer: its arguments on a command line, in a file and in a program."""

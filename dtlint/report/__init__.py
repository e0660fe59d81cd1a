"""What a report looks like: one module per format, none of which decides what is wrong."""

"""Text to values with spans: one reader per syntax, none of which knows a framework."""

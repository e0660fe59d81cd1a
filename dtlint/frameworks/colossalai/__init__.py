"""ColossalAI: its launcher, and the plugin by which a program splits its model."""

"""Lightning: its Trainer and its Fabric in a program, and LightningCLI."""

"""hydra and OmegaConf: configs composed of files, and a command line over them."""

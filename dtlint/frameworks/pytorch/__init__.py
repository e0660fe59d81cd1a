"""PyTorch in a program: DDP, FSDP, device meshes, recomputation, and gradients that are exchanged by hand."""

"""verl and EasyR1: hydra keys of the actor, the critic and the trainer for fine-tuning."""

"""The rulebook: reads rules/, evaluates them on plans, prices what they find."""

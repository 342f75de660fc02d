"""What the training stages share: checkpoints, ranks, tracking, signals, and the watch for hacking."""

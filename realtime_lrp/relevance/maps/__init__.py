"""What is computed of a network: methods, targets, the compiled functions and their account."""

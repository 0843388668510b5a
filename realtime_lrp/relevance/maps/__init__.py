"""Methods, targets, the compiled functions and their account."""

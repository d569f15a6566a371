"""What code that trains shares: sums over mini-batches, and the halves of an optimizer step."""

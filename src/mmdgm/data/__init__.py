"""From files and arrays to rows and batches: what users bring, as tensors that networks take."""

"""Convert users' files and arrays to rows and batches: tensors that networks take."""

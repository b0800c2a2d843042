"""What is measured of this library, and of others beside it."""

"""From few labels to labels for all rows, along a graph of neighbours."""

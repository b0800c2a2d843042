"""Label propagation: labels for all rows from few labels, along a graph of neighbours."""

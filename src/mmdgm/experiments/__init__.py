"""The paper's experiments: presets, run folders, and the paper's tables and figures."""

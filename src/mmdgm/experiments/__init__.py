"""The paper's door: presets, run folders, and the paper's tables and figures."""

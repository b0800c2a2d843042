"""The paper's tables and figures on MNIST: presets are trained, measured, and laid beside what the paper prints.

paper       the figures that the paper prints
patterns    what is missing in Tables 4 and 5, and what models make of it
baselines   what a user might take instead: neighbours, one Gaussian
tables      which runs a table is made of, and how it is laid out
figures     pictures of trained models
runner      train and measure what is not there yet, and lay tables out from result.json files
"""

"""The paper's tables and figures: train presets, measure them, compare them with the paper's figures.

printed     the figures that the paper prints
patterns    the missing pixels of Tables 4 and 5, and the results of models on them
baselines   simpler imputers: neighbours, one Gaussian
tables      the runs and the layout of each table
figures     pictures of trained models
runner      train and measure what does not exist yet, and make tables from result.json files
"""

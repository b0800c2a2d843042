"""How fast the models train and answer here, beside a naive step and other libraries."""

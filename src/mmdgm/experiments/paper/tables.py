"""All tables, by their names."""

from mmdgm.experiments.paper import few_labels, supervised

TABLES = {table.name: table for table in (*supervised.TABLES, *few_labels.TABLES)}

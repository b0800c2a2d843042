"""All tables, by their names."""

from mmdgm.reproduce import few_labels, supervised

TABLES = {table.name: table for table in (*supervised.TABLES, *few_labels.TABLES)}

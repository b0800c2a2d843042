"""All tables, by their names."""

from mmdgm.experiments.paper import few_labels, supervised, svhn_norb

_ALL = (*supervised.TABLES, *svhn_norb.TABLES, *few_labels.TABLES)
TABLES = {table.name: table for table in sorted(_ALL, key=lambda table: table.name)}

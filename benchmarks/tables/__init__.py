"""Tables with few labels and missing values: mmdgm beside imputers and classifiers of scikit-learn.

```text
tasks         tables → tasks: split, hidden cells, labels
encoding      data frames → category numbers → one-hot, standardised columns, and back
imputers      holes → filled rows
classifiers   filled or raw rows and few labels → predicted classes
scores        filled rows → error; tables → ranks
measure       a task and a method → a cell of figures
cells         the file of results, which grows by a cell at a time
summary       cells → Markdown
```
"""

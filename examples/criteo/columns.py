"""Names of the columns of Criteo's display advertising data, in the order of its files."""

LABEL = "label"
NUMERIC = ["I%d" % i for i in range(1, 14)]
CATEGORICAL = ["C%d" % i for i in range(1, 27)]

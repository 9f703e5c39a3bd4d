"""Reading: the rows of planned parts at one time, changes, collections."""

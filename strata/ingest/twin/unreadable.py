"""The twin's answers to an invalid source value."""


class Unreadable(Exception):
    """The value does not belong to the column's type; the text says why."""


class Undecided(Unreadable):
    """The documents do not say whether this is a value; nothing is judged by it."""

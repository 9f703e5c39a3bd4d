"""What the twin says of a source value that is none."""


class Unreadable(Exception):
    """The value is none of the column's type; the text says why."""


class Undecided(Unreadable):
    """The documents do not say whether this is a value: nobody is judged by it."""

"""People: whether two names belong to one person, and who vouches for a name.

A name that somebody types is only claimed. A database that authenticates its users (PostgreSQL)
knows who they are; a person is then that user, even under another name. A *voucher* is a database
user, such as Airflow's, that speaks for people whom it has authenticated itself. The policy of the
store names vouchers; when a voucher speaks, the name counts.
"""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.model.shown import BLANK

NAME_MAX: Final = 256  # characters: states and histories keep them
REASON_MAX: Final = 4000
NOBODY: Final = "nobody"
# Letters that look like Latin ones, and marks that look like each other, after folding. Only
# refusals use them: nobody becomes whom a list admits by a letter of another alphabet.
_LOOKS: Final = str.maketrans(
    {
        **dict(zip("аеорсухіјѕԁһӏԛԝкмтвн", "aeopcyxijsdhlqwkmtbh", strict=True)),
        **dict(zip("αβεζηικμνορτυγχ", "abezhikmvoptuyx", strict=True)),
        **dict(zip("օոսհցզյ", "onuhgqj", strict=True)),  # Armenian
        **dict(zip("ᎪᏴᏟᎠᎬᏀᎻᎥᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ", "abcdeghijklmprstvwz", strict=True)),  # Cherokee
        **dict(zip("ɑɡɩʏᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ", "agiyabcdeghijklmnoprstuvwz", strict=True)),
        **dict.fromkeys("‐‑‒–—―−⁃", "-"),
        **dict.fromkeys("‘’ʼʹ′`´", "'"),
        "ı": "i",
        "\u0307": None,  # the dot of a Turkish capital İ, in small letters
        "\ufffc": None,
    }
)
PROCESSES: Final = (NOBODY, "validate", "create")  # names of histories that are no person's


@dataclass(frozen=True, slots=True)
class Person:
    """A person who acts: a name, and the user that the database authenticated."""

    name: str
    user: str = ""  # of the database, authenticated; empty: the name is only claimed

    def identity(self, vouchers: Collection[str] = ()) -> str:
        """Return the identity to compare: the user, or the name if a voucher speaks."""
        spoken_for = not self.user or folded_name(self.user) in {
            folded_name(one) for one in vouchers
        }
        return folded_name(self.name if spoken_for else self.user)

    def proof(self, vouchers: Collection[str] = ()) -> str:
        """Return how far the name can be believed, in words.

        >>> Person("ann").proof(), Person("ann", "ann").proof(), Person("ann", "eve").proof()
        ('claimed', 'user of the database', 'claimed by eve')
        >>> Person("ann", "airflow").proof(["airflow"])
        'vouched for by airflow'
        """
        if not self.user:
            return "claimed"
        if folded_name(self.user) in {folded_name(one) for one in vouchers}:
            return f"vouched for by {self.user}"
        same = folded_name(self.user) == folded_name(self.name)
        return "user of the database" if same else f"claimed by {self.user}"


def are_one(first: Person, second: Person, vouchers: Collection[str] = ()) -> bool:
    """Return whether two may be the same person.

    Errs: takes two people for one if they have the same name, or if their names differ only in
    ways that a reader of a history does not see (see `look_of`).
    """
    same_name = look_of(first.name) == look_of(second.name)
    return same_name or look_of(first.identity(vouchers)) == look_of(second.identity(vouchers))


def folded_name(text: str) -> str:
    r"""Return a name for comparison: without case, width, blanks and invisible characters.

    Errs: may take two people for one, never one for two when spellings differ in these only.

    >>> folded_name(" \uff21nn\u200b Lee"), folded_name("Ann\u3164\ufe0f"), folded_name("")
    ('annlee', 'ann', '')
    """
    seen = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (c for c in seen if not c.isspace() and unicodedata.category(c)[0] != "C")
    return "".join(c for c in kept if c not in BLANK)


def look_of(text: str) -> str:
    r"""Return what a reader sees of a name: as `folded_name`, and letters that look alike are one.

    Errs: may take two people for one. It refuses, and admits nobody.

    >>> look_of("\u0430nn"), look_of("AL\u0130"), look_of("o\u2019k"), look_of("b\u2011c")
    ('ann', 'ali', "o'k", 'b-c')
    """
    return folded_name(text).translate(_LOOKS)


def identity_of(asked: tuple[object, ...]) -> str:
    """Return the id of a request: a digest of all that is asked, by whom and when."""
    said = repr(asked).encode("utf-8", "backslashreplace")
    return blake2b(said, digest_size=8).hexdigest()


def check_said(what: str, name: str, reason: str, **where: Any) -> None:
    """Refuse a missing or an endless name or reason, and a name that is Strata's own.

    Raises: InvalidRequest.
    """
    for said, text, most in (("name", name, NAME_MAX), ("reason", reason, REASON_MAX)):
        if len(text) > most:
            raise InvalidRequest(
                f"{what} keeps a {said} of a few sentences",
                **where,
                **{said: text[:80]},
                characters=len(text),
                most=most,
                cure="say it shorter, or name where it stands",
            )
    if not folded_name(name) or not folded_name(reason):
        raise InvalidRequest(f"{what} needs a name and a reason", **where)
    if look_of(name) in PROCESSES:
        raise InvalidRequest(
            f"{what} needs the name of a person, and this is Strata's own",
            **where,
            name=name,
            cure="say who you are: --by, or STRATA_USER",
        )

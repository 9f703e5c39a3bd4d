"""Erasure: rows of a person leave all stored bytes, and a certificate proves it.

`request` says what, `remove` takes rows out of batches, `history` erases texts about them, `clear`
removes what led to them, `prove` looks for what is left, `run` does it all.
Source: docs/how-to/erase.md.
"""

from strata.erase.certificate import as_text, certificates
from strata.erase.remove import Waiting
from strata.erase.request import ErasureRequest
from strata.erase.run import Eraser, moment_of

__all__ = ["Eraser", "ErasureRequest", "Waiting", "as_text", "certificates", "moment_of"]

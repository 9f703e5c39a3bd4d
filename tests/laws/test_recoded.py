"""Texts in other encodings: any chunks give the whole, and the whole is what Python decodes."""

import io
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.ingest.land import recode
from strata.ingest.land.recode import forbidden, is_cut_at_bytes, kept_text, recoded
from tests.support.sizes import tries
from tests.twins.recoded import at_once, byte_by_byte

CUT: Final = ("ascii", "iso8859-1", "iso8859-3", "iso8859-6", "cp1252", "koi8-r", "cp437")
WHOLE: Final = ("cp932", "shift-jis", "euc-jp", "gb18030", "big5", "cp949", "cp037", "iso2022-jp",
                "utf-16-le", "utf-16-be", "utf-32-le")  # fmt: skip
TEXTS: Final = st.lists(
    st.sampled_from([b"a", b";", b"\n", b'"', b"\x81", b"\xc3", b"\xa5", b"\x8f", b"\0", b"\xd8",
                     b"\x1b$B", b"F|", b"\x1b(B", b"\xed\xb2\x81", b"\xff"]) | st.binary(max_size=3)
).map(b"".join)  # fmt: skip


@trying(max_examples=tries(100, 10_000), deadline=None)
@given(TEXTS, st.sampled_from([*CUT, *WHOLE]), st.integers(1, 9), st.integers(1, 9))
@example(b"\x810", "gb18030", 9, 9)
@example(b"\x1b$\nb", "iso2022-jp", 1, 1)
def test_chunks_of_any_size_give_the_whole(
    data: bytes, encoding: str, chunk: int, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recode, "CHUNK_BYTES", chunk)
        stream = recode.Converted(io.BytesIO(data), recode.utf8_of(encoding))
        found = b"".join(iter(lambda: stream.read(size), b""))

    assert found == recoded(data, encoding) == at_once(data, encoding)


@trying(max_examples=tries(100, 10_000))
@given(TEXTS, st.sampled_from([*CUT, *WHOLE]))
def test_what_python_decodes_is_the_text_and_nothing_else_is_utf8(
    data: bytes, encoding: str
) -> None:
    found = recoded(data, encoding)

    try:
        text = data.decode(encoding)
    except UnicodeError:
        assert forbidden(found) is not None
        with pytest.raises(UnicodeDecodeError):
            found.decode()
        assert kept_text(found, encoding, encoding) == found
    else:
        assert found == text.encode()
        assert forbidden(found) is None


@trying(max_examples=tries(100, 10_000))
@given(TEXTS, st.sampled_from(CUT), st.data())
def test_a_text_may_be_cut_at_any_byte(data: bytes, encoding: str, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))

    assert is_cut_at_bytes(encoding)
    assert recoded(data[:at], encoding) + recoded(data[at:], encoding) == recoded(data, encoding)
    assert recoded(data, encoding) == byte_by_byte(data, encoding)
    assert recoded(data, encoding).count(b"\n") == data.count(b"\n")
    assert kept_text(recoded(data, encoding), encoding, "iso8859-1") == recoded(data, "iso8859-1")

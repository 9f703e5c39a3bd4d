"""Types as people write them, where that goes wrong."""

import pytest

from strata.errors import InvalidRequest
from strata.model.types import MAX_DEPTH, parse_type


def nested(levels: int) -> str:
    return "list<" * levels + "int32" + ">" * levels


def test_types_may_be_as_deep_as_rows_can_be_written() -> None:
    assert str(parse_type(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 5000])
def test_deeper_types_are_refused_when_they_are_declared(levels: int) -> None:
    with pytest.raises(InvalidRequest, match="nested too deeply") as caught:
        parse_type(nested(levels))

    assert caught.value.details["type"] == nested(levels)

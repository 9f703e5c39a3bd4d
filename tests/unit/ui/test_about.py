"""The console's pages of a shard say whose it is and what is in it, as text."""

from dataclasses import replace

import pytest

from strata.machine.machine import Machine
from strata.model.spec import AboutSpec
from strata.state.state import State
from strata.state.step import step
from tests.support.console import NAME, filled, pages_of
from tests.unit.ui.test_pages import Shape, client


@pytest.mark.parametrize("page", ["", "/rollout", "/audits"])
def test_a_page_of_a_shard_says_whose_it_is(page: str) -> None:
    stores = filled()

    def about(state: State, now_ms: int) -> tuple[State, None]:
        described = AboutSpec("<b>team</b>", "one row & more", ("x<y", "pii"))
        return step(state, now_ms, spec=replace(state.spec, about=described)), None

    before = client(pages_of(stores)).get(f"/shards/{NAME}{page}").text
    Machine(stores).apply(NAME, about)
    after = client(pages_of(stores)).get(f"/shards/{NAME}{page}").text

    assert "Owner" not in before
    assert "one row &amp; more" in after
    assert "Owner: &lt;b&gt;team&lt;/b&gt; · x&lt;y, pii" in after
    assert Shape(after).wrong == []

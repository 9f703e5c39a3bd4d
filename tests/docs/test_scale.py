"""The tables of scale.md are those of today's arithmetic, those of slopes.md of the stored run."""

import json

from benchmarks import scale, slopes, slopes_page


def test_the_tables_are_up_to_date() -> None:
    text = (scale.DOCS / "explanation" / "scale.md").read_text("utf-8")
    assert scale.filled(text) == text
    assert (scale.DOCS / "images" / "scale.svg").read_text("utf-8") == scale.chart()


def test_more_bytes_never_take_less() -> None:
    sizes = [10**exponent for exponent in range(9, 16)]
    plans = [scale.plan_seconds(scale.parts_of(size)) for size in sizes]
    assert plans == sorted(plans)
    assert scale.plan_seconds(100_000) == 0.163
    assert scale.costs()["compact once"].puts > scale.costs()["ingest"].puts


def test_a_terabyte_is_paid_at_the_price_of_its_tier() -> None:
    terabytes = (1, 50, 51, 500, 501)
    assert [scale.month(n * scale.TB) for n in terabytes] == [23, 1150, 1172, 11050, 11071]


def test_the_slopes_are_those_of_the_run_that_is_stored() -> None:
    document = json.loads(slopes.STORED.read_text("utf-8"))
    text = (slopes.DOCS / "explanation" / "slopes.md").read_text("utf-8")
    assert slopes.filled(text, document) == text, "run: python -m benchmarks.slopes --write"
    drawn = (slopes.DOCS / "images" / "slopes.svg").read_text("utf-8")
    assert drawn == slopes_page.chart(document)

"""The index of the report; Great Expectations loads this module, so it may import the library."""

from typing import Any

from great_expectations.render.renderer.site_builder import DefaultSiteIndexBuilder


class ReportIndex(DefaultSiteIndexBuilder):
    """The library's index builder, except that no page is deleted: alerts link to old pages.

    The newest results have a page each, so the index has the same rows.
    """

    def build(self, skip_and_clean_missing: bool = False, build_index: bool = True) -> Any:
        """Write the index; delete no page."""
        return super().build(skip_and_clean_missing, build_index)

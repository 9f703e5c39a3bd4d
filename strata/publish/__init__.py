"""Shards as tables of other formats: metadata that name the very same parts; no data is copied.

`fields` gives columns their ids and types, `metrics` says what statistics prove in the other
format, `manifests` names parts, `place` and `catalogs` store it, `views` writes texts of views, and
`iceberg` is the operation. Everything but this file needs the extra `iceberg`.
"""

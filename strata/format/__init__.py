"""Bytes and Arrow: encodings, the row codec, parts, manifests, digests."""

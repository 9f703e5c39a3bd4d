"""The row codec: a row as the bytes of a protobuf message."""

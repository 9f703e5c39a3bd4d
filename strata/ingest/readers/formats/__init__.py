"""Source formats, one module each; the module's `FORMAT` describes the format (`interface`)."""

"""Files become one batch an interval, exactly once: found, read, typed, checked, committed."""

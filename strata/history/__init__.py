"""What Strata records about itself: journals, operations, figures, filters."""

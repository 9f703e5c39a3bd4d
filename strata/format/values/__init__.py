"""Values of columns: stored, canonical, sortable, and in the form that readers see."""

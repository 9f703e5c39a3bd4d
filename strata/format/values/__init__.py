"""Values of columns: stored, canonical, sortable and as readers see them."""

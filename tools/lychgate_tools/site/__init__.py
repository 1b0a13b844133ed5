"""`lychgate site DIR`: the pages of the checkout as a static site, searchable without a network."""

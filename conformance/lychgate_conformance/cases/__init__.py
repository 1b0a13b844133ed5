"""The promises, one function each, grouped by what they are about."""

"""A patch and its evidence -> a proposal to upstream; and what became of those that are there."""

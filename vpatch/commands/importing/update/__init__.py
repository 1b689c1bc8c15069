"""`vpatch import --update`: a patch gives the newer form of its source."""

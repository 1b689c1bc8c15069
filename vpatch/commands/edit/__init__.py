"""`vpatch edit` and `refresh`: a patch is changed by an edit of the code that it makes."""

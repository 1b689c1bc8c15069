"""`vpatch status`: what each patch means for a release."""

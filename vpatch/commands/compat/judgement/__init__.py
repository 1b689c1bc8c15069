"""What an item means in a release."""
